// What a case works with: the opened plugin, calls that leave a breadcrumb, a host to lend, and ways to end.
#pragma once

#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "conformance/breadcrumb.h"
#include "conformance/conformance.h"
#include "conformance/kit_host.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::kit {

// The case cannot be tried on this plugin: an ability that it does not state, a device that is not there.
class Skip : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// A promise is broken: "expected ..., got ...".
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
void expect(bool holds, fmt::format_string<Args...> otherwise, Args&&... args) {
  if (!holds) throw Broken(fmt::format(otherwise, std::forward<Args>(args)...));
}

// What a function of the ABI answered.
struct Answer {
  std::string_view function;
  int32_t code = LF_OK;
  std::string message;

  bool ok() const { return code == LF_OK; }
  void must_succeed() const;
  // Refused, with a text and one of these codes (none given: any).
  void must_fail(std::initializer_list<int32_t> codes = {}) const;
  // Either is right, but a refusal has a text.
  void may_fail() const;
};

namespace detail {

// "lf_device_api.copy", out of the compiler's spelling of this function.
template <auto kMember>
consteval auto spelling() {
  constexpr std::string_view kText = __PRETTY_FUNCTION__;
  constexpr size_t kBegin = kText.find("kMember = ") + 10;
  constexpr size_t kEnd = kText.find_first_of(";]", kBegin);
  std::array<char, 96> name{};
  size_t n = 0;
  for (size_t i = kBegin; i < kEnd; ++i) {
    const char c = kText[i];
    if (c == '&' || c == '(' || c == ')' || c == ' ') continue;
    if (c == ':') {
      if (kText[i + 1] == ':') name[n++] = '.';
      continue;
    }
    name[n++] = c;
  }
  return name;
}

template <auto kMember>
inline constexpr auto kSpelling = spelling<kMember>();

template <typename Table, typename Member>
size_t end_of(Member Table::*member) {
  const Table* const base = nullptr;
  return reinterpret_cast<size_t>(&(base->*member)) + sizeof(Member);
}

}  // namespace detail

class Bench {
 public:
  Bench(const lf_plugin* plugin, const Manifest& manifest, const KitOptions& options, Breadcrumb& crumb)
      : plugin_(plugin), manifest_(manifest), options_(options), crumb_(crumb) {}

  const lf_plugin* plugin() const { return plugin_; }
  const Manifest& manifest() const { return manifest_; }
  const KitOptions& options() const { return options_; }
  KitHost& host() { return host_; }
  Breadcrumb& crumb() { return crumb_; }

  void start();  // once
  void stop();   // where it was started

  template <typename Table>
  const Table* table(std::string_view id) {
    return static_cast<const Table*>(interface(id));
  }
  const void* interface(std::string_view id);

  template <auto kMember, typename Table>
  bool has(const Table* table) const {
    return table != nullptr && table->h.size >= detail::end_of(kMember) && table->*kMember != nullptr;
  }

  // Calls a function of a table; the lf_err is added behind the arguments. Skips the case where the table lacks it.
  template <auto kMember, typename Table, typename... Args>
  Answer ask(const Table* table, Args... args) {
    constexpr std::string_view kName(detail::kSpelling<kMember>.data());
    if (!has<kMember>(table)) throw Skip(fmt::format("{} is not offered", kName));
    lf_err err = sdk::make_err();
    crumb_.enter(kName);
    int32_t code = LF_OK;
    try {
      code = (table->*kMember)(args..., &err);
    } catch (const std::exception& error) {
      throw Broken(fmt::format("an exception left {}: {}", kName, error.what()));
    } catch (...) {
      throw Broken(fmt::format("an exception that is no std::exception left {}", kName));
    }
    crumb_.leave();
    return answer(kName, code, err);
  }

 private:
  static Answer answer(std::string_view function, int32_t code, const lf_err& err);

  const lf_plugin* plugin_;
  const Manifest& manifest_;
  const KitOptions& options_;
  Breadcrumb& crumb_;
  KitHost host_;
  bool started_ = false;
};

struct Case {
  std::string name;  // a sentence about behaviour, with underscores
  std::function<void(Bench&)> run;
};

std::vector<Case> common_cases();
std::vector<Case> device_cases();
std::vector<Case> collective_cases();
std::vector<Case> balancer_cases();
std::vector<Case> model_cases();

}  // namespace lf::kit
