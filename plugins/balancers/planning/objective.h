// What a packing costs, and what no packing can beat, in ticks. Only what moves with samples counts here; atoms of
// untied parts are placed afterwards.
#pragma once

#include <cstdint>
#include <span>

#include "planning/packing.h"

namespace lf::planning {

// Ticks of the fastest replica -> ticks of this one.
inline int64_t time_on(const Problem& problem, int32_t replica, int64_t cost) {
  if (problem.slowness.empty()) return cost;
  return static_cast<int64_t>(static_cast<double>(cost) * problem.slowness[replica]);
}

// By the problem's objective (lf/plugin_api/balancer.h); two-stage: the sum over parts of the slowest replica's ticks.
int64_t objective_of(const Packing& packing);
// The same of samples in these slots, whether limits are kept or not.
int64_t objective_of(const Problem& problem, std::span<const int32_t> slot);

// max(mean, heaviest sample on the fastest replica); for two-stage the sum of that over parts. With `untied`, the work
// of untied parts is in the mean, which the samples' own work may then reach but need not stay below.
int64_t simple_bound(const Problem& problem);

// Replicas' costs in fastest-replica equivalents: sum over replicas of 1 / slowness.
double capacity(const Problem& problem);

}  // namespace lf::planning
