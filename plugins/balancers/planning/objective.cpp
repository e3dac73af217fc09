#include "planning/objective.h"

#include <algorithm>

namespace lf::planning {
namespace {

int64_t slowest(const Problem& problem, const std::vector<int64_t>& by_replica) {
  int64_t most = 0;
  for (int32_t r = 0; r < problem.replicas; ++r) most = std::max(most, time_on(problem, r, by_replica[r]));
  return most;
}

int64_t lockstep(const Packing& packing) {
  const Problem& problem = packing.problem();
  const std::vector<int64_t> costs = slot_costs(packing);
  int64_t sum = 0;
  for (int32_t k = 0; k < problem.micro_batches; ++k) {
    int64_t most = 0;
    for (int32_t r = 0; r < problem.replicas; ++r)
      most = std::max(most, time_on(problem, r, costs[r * problem.micro_batches + k]));
    sum += most;
  }
  return sum;
}

int64_t two_stage(const Packing& packing) {
  const Problem& problem = packing.problem();
  int64_t sum = 0;
  std::vector<int64_t> by_replica;
  for (const std::vector<int64_t>& cost : problem.stage_cost) {
    if (cost.empty()) continue;
    by_replica.assign(problem.replicas, 0);
    for (uint32_t i = 0; i < problem.n_samples; ++i) by_replica[packing.replica(i)] += cost[i];
    sum += slowest(problem, by_replica);
  }
  return sum;
}

}  // namespace

int64_t objective_of(const Packing& packing) {
  const Problem& problem = packing.problem();
  if (problem.objective == LF_OBJECTIVE_LOCKSTEP) return lockstep(packing);
  if (problem.objective == LF_OBJECTIVE_TWO_STAGE && !problem.stage_cost.empty()) return two_stage(packing);
  return slowest(problem, replica_costs(packing));
}

double capacity(const Problem& problem) {
  if (problem.slowness.empty()) return problem.replicas;
  double sum = 0;
  for (const double slowness : problem.slowness) sum += 1 / slowness;
  return sum;
}

int64_t simple_bound(const Problem& problem) {
  const double replicas = capacity(problem);
  const auto bound = [&](const std::vector<int64_t>& cost, int64_t extra) {
    int64_t sum = extra, heaviest = 0;
    for (const int64_t one : cost) {
      sum += one;
      heaviest = std::max(heaviest, one);
    }
    return std::max(static_cast<int64_t>(static_cast<double>(sum) / replicas), heaviest);
  };
  if (problem.objective != LF_OBJECTIVE_TWO_STAGE || problem.stage_cost.empty())
    return bound(problem.cost, problem.total_untied);
  int64_t sum = 0;
  for (const std::vector<int64_t>& cost : problem.stage_cost)
    if (!cost.empty()) sum += bound(cost, 0);
  return sum;
}

}  // namespace lf::planning
