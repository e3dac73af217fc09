// How the configuration readers of all families refuse.
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf {

// The message of the one error that `parse` of the file has, which is LF_E_INVALID for all; "accepted" where there is
// none.
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

}  // namespace lf
