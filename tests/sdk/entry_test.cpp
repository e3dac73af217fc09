// Entries of a table that come out of functions that throw.
#include "lf/plugin_sdk/entry.hpp"

#include <stdexcept>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "lf/plugin_api/balancer.h"

namespace lf::sdk {
namespace {

void nothing(lf_balancer) {}
void chooses_its_code(lf_balancer) { throw Failure(LF_E_DATA, "line 3: no number"); }
void throws(lf_balancer) { throw std::out_of_range("layer 7 of 6"); }
void runs_out_of_memory(lf_balancer) { throw std::bad_alloc(); }
void throws_a_number(lf_balancer) { throw 7; }
void returns_its_options(const lf_host*, lf_str options, lf_balancer* out) {
  *out = reinterpret_cast<lf_balancer>(const_cast<char*>(options.data));
}

TEST(Entry, turns_whatever_is_thrown_into_a_code_and_a_text) {
  const auto call = [](int32_t (*of)(lf_balancer, lf_err*)) {
    lf_err err = make_err();
    const int32_t code = of(nullptr, &err);
    return std::pair(code, std::string(err.message));
  };
  EXPECT_EQ(call(entry<nothing>), std::pair(int32_t{LF_OK}, std::string()));
  EXPECT_EQ(call(entry<chooses_its_code>), std::pair(int32_t{LF_E_DATA}, std::string("line 3: no number")));
  EXPECT_EQ(call(entry<throws>), std::pair(int32_t{LF_E_EXCEPTION}, std::string("layer 7 of 6")));
  EXPECT_EQ(call(entry<runs_out_of_memory>).first, LF_E_NOMEM_HOST);
  EXPECT_EQ(call(entry<throws_a_number>).first, LF_E_EXCEPTION);
  static_assert(noexcept(EntryOf<throws>::call(nullptr, nullptr)));
  static_assert(!std::is_convertible_v<decltype(&throws), decltype(lf_balancer_api::destroy)>,
                "a function that may throw is no entry by itself");
}

TEST(Entry, hands_its_arguments_on) {
  lf_balancer_api table{};
  table.create = entry<returns_its_options>;
  lf_balancer made = nullptr;
  const std::string text = "{}";
  EXPECT_EQ(table.create(nullptr, str(text), &made, nullptr), LF_OK);
  EXPECT_EQ(reinterpret_cast<const char*>(made), text.data());
}

}  // namespace
}  // namespace lf::sdk
