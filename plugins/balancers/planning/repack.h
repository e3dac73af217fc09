// One replica's samples anew into its micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planning/packing.h"

namespace lf::planning {

// Whether the samples fit into `width` empty slots, none of which stays empty if there are enough samples; then
// slots[i], in [0, width), is that of samples[i]. Largest first by the first limit, into the emptiest slot, and if that
// fails into the fullest that has room. Does not look at where samples are now.
bool repack(const Problem& problem, std::span<const uint32_t> samples, int32_t width, std::vector<int32_t>& slots);

}  // namespace lf::planning
