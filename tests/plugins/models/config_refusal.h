// How the configuration readers of all families refuse.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "family/findings.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {

// The message of the error that `parse` of the file has, which is LF_E_INVALID for all; "accepted" where there is none.
template <typename Parse>
std::string config_refusal(Parse&& parse, const nlohmann::json& config) {
  try {
    parse(config.dump());
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_INVALID);
    return failure.what();
  }
  return "accepted";
}

// The same, a line each.
template <typename Parse>
std::vector<std::string> config_mistakes(Parse&& parse, const nlohmann::json& config) {
  std::vector<std::string> lines;
  const std::string said = config_refusal(parse, config);
  for (size_t start = 0; start <= said.size();) {
    const size_t end = std::min(said.find('\n', start), said.size());
    lines.push_back(said.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

// Each of the fields (JSON pointers) left out of a good config is one mistake, which names it.
template <typename Parse>
void expect_stated(Parse&& parse, const nlohmann::json& good, const std::vector<std::string>& fields) {
  ASSERT_EQ(config_refusal(parse, good), "accepted");
  for (const std::string& field : fields) {
    const nlohmann::json::json_pointer pointer(field);
    nlohmann::json config = good;
    ASSERT_EQ(config[pointer.parent_pointer()].erase(pointer.back()), 1u) << field;
    const std::vector<std::string> mistakes = config_mistakes(parse, config);
    EXPECT_THAT(mistakes, testing::SizeIs(1)) << field;
    EXPECT_THAT(mistakes.front(), testing::HasSubstr(pointer.back() + ": expected"));
    EXPECT_THAT(mistakes.front(), testing::AllOf(testing::HasSubstr("must be stated"), testing::EndsWith("nothing")));
  }
}

// What is told as warnings, a line each.
inline std::string told(const family::Findings& findings) {
  std::string lines;
  lf_host host{};
  host.context = &lines;
  host.log = [](const lf_host* of, int32_t, lf_str text) {
    static_cast<std::string*>(of->context)->append(sdk::view(text)).append("\n");
  };
  findings.tell(&host);
  return lines;
}

}  // namespace lf
