// One barrier a step: the slowest replica counts, all its micro-batches together.
#pragma once

#include "planning/packing.h"

namespace lf::planning {

// Deals samples out to replicas, then lets the slowest exchange some until it is within `within` of the bound.
Packing plan_makespan(const Problem& problem, double within);

// From the arrival, with as little moved to another replica as possible.
Packing plan_few_moves(const Problem& problem, double within);

}  // namespace lf::planning
