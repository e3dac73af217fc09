// A barrier at every micro-batch: the sum over micro-batches of the slowest replica counts. What cannot be cut (long
// samples) should then be heavy together: some micro-batches long on every replica, the others short.
#pragma once

#include "planning/packing.h"

namespace lf::planning {

// Fills micro-batch after micro-batch, each up to the level of the heaviest sample left, until that is below the mean
// of what is left; the rest is levelled.
Packing plan_lockstep(const Problem& problem, double within);

// The same slots in the order of their cost: the costliest `replicas` ones become the first micro-batch, and so on, the
// costlier on the faster replica. No other order of these slots is better where speeds are equal.
Packing ordered_for_lockstep(const Packing& packing);

}  // namespace lf::planning
