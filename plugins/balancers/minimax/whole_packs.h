// Micro-batches as they arrived, each moved as a whole: what a data set of ready packs allows.
#pragma once

#include "planning/packing.h"

namespace lf::planning {

// Every replica gets as many packs as before; by the problem's objective. May be incomplete where the arrival is.
Packing plan_whole_packs(const Problem& problem, double within);

}  // namespace lf::planning
