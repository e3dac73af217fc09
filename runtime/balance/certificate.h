// What a plan costs and what no plan could beat, computed by the runtime itself from the problem, whoever made the
// plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "balance/balance.h"

namespace lf {

struct Certificate {
  double objective = 0;    // seconds, by the problem's objective
  double mean = 0;         // seconds if all work could be cut at will
  double lower_bound = 0;  // max(mean, heaviest, limited): no plan is below it
  double heaviest = 0;     // by the heaviest sample (or atom, where atoms go their own way)
  double limited = 0;      // by the limit on rows together with the heavy samples
  double gap() const { return lower_bound > 0 ? objective / lower_bound - 1 : 0; }
  // Where the bound is well above the mean, no policy can help: what would. Empty otherwise.
  std::string remedy;
};

// Seconds of one component in each (replica, micro-batch), at the replica's speed: [replica * micro_batches + k].
std::vector<double> slot_seconds(const BalanceInput& input, size_t part, std::span<const lf_assignment> assignments);

// makespan, sum: the slowest replica, all its parts and micro-batches together.
// lockstep: the sum over micro-batches of the slowest replica there.
// two-stage: the sum over parts of the slowest replica there.
// fixed_seconds is added for each micro-batch of a replica (in two-stage, to the last part).
double objective_seconds(const BalanceInput& input, std::span<const lf_assignment> assignments);
// The same from the nominal seconds (speed 1) of each part in each slot.
double objective_of_slots(const BalanceInput& input, std::vector<std::vector<double>> slots_of_parts);

// assignments: per part and atom, valid. Pure. O(atoms), and a sort where a lockstep plan is not at its bound.
Certificate certify(const BalanceInput& input, std::span<const lf_assignment> assignments);

}  // namespace lf
