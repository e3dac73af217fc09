// A planning problem in whole numbers, so that every rank computes the same plan whatever its compiler does to sums.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lf/plugin_api/balancer.h"

namespace lf::planning {

// A place is a (replica, micro-batch), numbered replica * micro_batches + micro_batch: a "slot".
struct Problem {
  int32_t objective = 0;  // LF_OBJECTIVE_...
  int32_t replicas = 0, micro_batches = 0, slots = 0;
  uint32_t n_samples = 0;
  bool fills_slots = true;  // no slot may stay empty where there are enough samples

  // Costs in ticks: 2^40 of them are the whole step, so that sums never overflow and differences are exact.
  double tick_seconds = 0;
  std::vector<int64_t> cost;  // per sample: its atom of the last part and of every tied part
  int64_t total_cost = 0, total_untied = 0;
  // Two-stage only: the cost of a sample in each part that moves with it, [part][sample]; empty for an untied part.
  std::vector<std::vector<int64_t>> stage_cost;

  // Limits on what a slot holds (rows and bytes of the last part and of tied parts) that can be reached at all; the one
  // with the highest use first. Without any there is one of cost that never binds, so that there always is a measure of
  // room. amount[sample * n_limits + l].
  int32_t n_limits = 0;
  double use = 0;  // share of all slots' room that the samples need, by the first limit; 0: nothing binds
  std::vector<int64_t> limit;
  std::vector<int64_t> amount;

  int64_t fixed = 0;  // what a micro-batch takes besides its samples; 0 where all speeds are equal: no matter
  std::vector<double> slowness;  // per replica: speed of the fastest / its own; empty: all equal
  std::vector<int32_t> arrival;  // slot of each sample

  std::span<const int64_t> amounts(uint32_t sample) const {
    return {amount.data() + static_cast<size_t>(sample) * n_limits, static_cast<size_t>(n_limits)};
  }
};

// Throws sdk::Failure(LF_E_INVALID) for an objective it does not know.
Problem make_problem(const lf_balance_input& input);

}  // namespace lf::planning
