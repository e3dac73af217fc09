// Packings that keep the limits first, and are good second: what a policy falls back on where limits are tight.
#pragma once

#include "planning/packing.h"

namespace lf::planning {

// Samples from the largest to the smallest, each to the emptiest slot. May be incomplete.
Packing filled_by_size(const Problem& problem);

// The arrival, with samples moved out of overfull slots and into empty ones, and nothing else. May be incomplete.
Packing mended_arrival(const Problem& problem);

// The first complete one of these. Throws sdk::Failure(LF_E_INVALID), with what the limits leave, where there is none.
Packing feasible_packing(const Problem& problem);

}  // namespace lf::planning
