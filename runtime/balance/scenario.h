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
  // sample; 0: no limit.
  double cap = 1.05;
  int32_t objective = LF_OBJECTIVE_MAKESPAN;
  bool frames_are_atoms = false;  // the encoder's work on a frame may be done anywhere
  double flops_per_second = 1;    // of a replica; 1: "seconds" are FLOPs
};

// Samples arrive in order, the same number (up to one) on every replica, and are cut there into micro-batches of about
// equal tokens. Parts: "vision" where some sample has frames, and "language".
BalanceInput scenario_input(std::span<const WorkSample> samples, const WorkCost& cost, const Scenario& scenario);

}  // namespace lf
