// A barrier between the parts of a model: the slowest replica of each part counts.
#pragma once

#include "planning/packing.h"

namespace lf::planning {

// Samples with work in an earlier part are dealt out to level that, the others to level the last part; then the slowest
// replica of each part in turn exchanges samples without making another part slower.
Packing plan_two_stage(const Problem& problem, double within);

}  // namespace lf::planning
