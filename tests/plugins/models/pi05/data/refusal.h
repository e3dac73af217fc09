// What something is refused with.
#pragma once

#include <string>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::test {

// "CODE: message", or "" where nothing was thrown.
template <typename Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const sdk::Failure& failure) {
    return fmt::format("{}: {}",
                       failure.code() == LF_E_DATA      ? "data"
                       : failure.code() == LF_E_INVALID ? "invalid"
                                                        : std::to_string(failure.code()),
                       failure.what());
  }
  return "";
}

}  // namespace lf::test
