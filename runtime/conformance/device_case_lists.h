// Streams, events and ranges: the second half of device_cases().
#pragma once

#include "conformance/bench.h"

namespace lf::kit {

std::vector<Case> stream_cases();

}  // namespace lf::kit
