// From samples as numbers to a planning problem, with the places where they would go without balancing.
#pragma once

#include <cstdint>
#include <span>

#include "balance/balance.h"
#include "balance/workload.h"

namespace lf {

struct Scenario {
  int32_t replicas = 1, micro_batches = 1;
  // Room of a micro-batch: so many times the mean of tokens over all micro-batches, but never less than the longest
  // sample nor than a full pack; 0: no limit.
  double cap = 1.05;
  int32_t objective = LF_OBJECTIVE_MAKESPAN;
  bool frames_are_atoms = false;  // the encoder's work on a frame may be done anywhere
  double flops_per_second = 1;    // of a replica; 1: "seconds" are FLOPs
  // Tokens of a pack, where samples arrive packed: the next sample opens a new pack where it does not fit, and packs go
  // to micro-batch after micro-batch, replica after replica. 0: the same number of samples (up to one) on every
  // replica, cut there into micro-batches of about equal tokens.
  int64_t pack = 0;
};

// How many of the samples fill all micro-batches with packs, and so make one step; all of them where pack is 0 or they
// are too few.
size_t samples_per_step(std::span<const WorkSample> samples, const WorkCost& cost, const Scenario& scenario);

// The step of all these samples. Parts: "vision" where some sample has frames, and "language".
BalanceInput scenario_input(std::span<const WorkSample> samples, const WorkCost& cost, const Scenario& scenario);

}  // namespace lf
