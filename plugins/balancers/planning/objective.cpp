#include "planning/objective.h"

#include <algorithm>

namespace lf::planning {
namespace {

std::vector<int64_t> sums_by_slot(const Problem& problem, std::span<const int64_t> cost,
                                  std::span<const int32_t> slot) {
  std::vector<int64_t> sums(problem.slots, 0);
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample) sums[slot[sample]] += cost[sample];
  return sums;
}

// `fixed`: of a micro-batch.
int64_t slowest(const Problem& problem, const std::vector<int64_t>& by_slot, int64_t fixed) {
  int64_t most = 0;
  for (int32_t r = 0; r < problem.replicas; ++r) {
    int64_t cost = fixed * problem.micro_batches;
    for (int32_t k = 0; k < problem.micro_batches; ++k) cost += by_slot[r * problem.micro_batches + k];
    most = std::max(most, time_on(problem, r, cost));
  }
  return most;
}

int64_t lockstep(const Problem& problem, const std::vector<int64_t>& by_slot) {
  int64_t sum = 0;
  for (int32_t k = 0; k < problem.micro_batches; ++k) {
    int64_t most = 0;
    for (int32_t r = 0; r < problem.replicas; ++r)
      most = std::max(most, time_on(problem, r, by_slot[r * problem.micro_batches + k] + problem.fixed));
    sum += most;
  }
  return sum;
}

}  // namespace

int64_t objective_of(const Problem& problem, std::span<const int32_t> slot) {
  if (problem.objective == LF_OBJECTIVE_TWO_STAGE && !problem.stage_cost.empty()) {
    int64_t sum = 0;
    for (const std::vector<int64_t>& cost : problem.stage_cost)  // the last part has what is fixed
      if (!cost.empty())
        sum += slowest(problem, sums_by_slot(problem, cost, slot),
                       &cost == &problem.stage_cost.back() ? problem.fixed : 0);
    return sum;
  }
  const std::vector<int64_t> by_slot = sums_by_slot(problem, problem.cost, slot);
  return problem.objective == LF_OBJECTIVE_LOCKSTEP ? lockstep(problem, by_slot)
                                                    : slowest(problem, by_slot, problem.fixed);
}

int64_t objective_of(const Packing& packing) { return objective_of(packing.problem(), packing.slots()); }

double capacity(const Problem& problem) {
  if (problem.slowness.empty()) return problem.replicas;
  double sum = 0;
  for (const double slowness : problem.slowness) sum += 1 / slowness;
  return sum;
}

int64_t simple_bound(const Problem& problem) {
  const double replicas = capacity(problem);
  const auto bound = [&](const std::vector<int64_t>& cost, int64_t extra, int64_t fixed) {
    int64_t sum = extra + fixed * problem.slots, heaviest = 0;
    for (const int64_t one : cost) {
      sum += one;
      heaviest = std::max(heaviest, one);
    }
    return std::max(static_cast<int64_t>(static_cast<double>(sum) / replicas),
                    heaviest + fixed * problem.micro_batches);
  };
  if (problem.objective != LF_OBJECTIVE_TWO_STAGE || problem.stage_cost.empty())
    return bound(problem.cost, problem.total_untied, problem.fixed);
  int64_t sum = 0;
  for (const std::vector<int64_t>& cost : problem.stage_cost)
    if (!cost.empty()) sum += bound(cost, 0, &cost == &problem.stage_cost.back() ? problem.fixed : 0);
  return sum;
}

}  // namespace lf::planning
