// From a packing that greed left incomplete to one that keeps every promise, if it can be found.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/packing.h"

namespace lf::planning {

// Places the samples of `left`, which are nowhere, largest first: where they fit on the least loaded replica, or else
// by exchanging places with a smaller sample that fits elsewhere. Some may stay nowhere.
void place_left(Packing& packing, std::vector<uint32_t> left);

// place_left, then gives the lightest samples that have company to the slots that are empty, where there are enough
// samples for all. Returns packing.complete().
bool repair(Packing& packing, std::vector<uint32_t> left);

}  // namespace lf::planning
