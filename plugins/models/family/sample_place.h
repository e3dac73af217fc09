// Messages about data say whose.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include "lf/plugin_api/model.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

// Runs `body` and puts the sample's place before what it throws about data.
template <typename Body>
auto at_place(const lf_sample& sample, Body&& body) {
  try {
    return body();
  } catch (const sdk::Failure& failure) {
    const std::string_view place = sdk::view(sample.place);
    if (failure.code() != LF_E_DATA || place.empty()) throw;
    throw sdk::Failure(LF_E_DATA, fmt::format("{}: {}", place, failure.what()));
  }
}

}  // namespace lf::family
