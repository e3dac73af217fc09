#include "minimax/two_stage.h"

#include <algorithm>
#include <utility>

#include "planning/deal.h"
#include "planning/feasible.h"
#include "planning/objective.h"
#include "planning/order.h"
#include "planning/refine.h"
#include "planning/repair.h"

namespace lf::planning {
namespace {

using Stages = std::vector<const std::vector<int64_t>*>;

std::vector<int64_t> loads(const Packing& packing, const std::vector<int64_t>& cost) {
  std::vector<int64_t> load(packing.problem().replicas, 0);
  for (uint32_t i = 0; i < packing.problem().n_samples; ++i)
    if (packing.slot(i) != Packing::kNowhere) load[packing.replica(i)] += cost[i];
  return load;
}

int64_t slowest(const Packing& packing, const std::vector<int64_t>& cost) {
  const std::vector<int64_t> load = loads(packing, cost);
  int64_t most = 0;
  for (size_t r = 0; r < load.size(); ++r)
    most = std::max(most, time_on(packing.problem(), static_cast<int32_t>(r), load[r]));
  return most;
}

int64_t bound(const Problem& problem, const std::vector<int64_t>& cost) {
  int64_t sum = 0, heaviest = 0;
  for (const int64_t one : cost) sum += one, heaviest = std::max(heaviest, one);
  return std::max(static_cast<int64_t>(static_cast<double>(sum) / capacity(problem)), heaviest);
}

// Earlier parts first; of samples alike there, the later parts decide: they count a 64th.
Packing dealt(const Problem& problem, const Stages& stages) {
  Packing packing(problem);
  std::vector<uint32_t> left, rest(problem.n_samples);
  for (uint32_t i = 0; i < problem.n_samples; ++i) rest[i] = i;
  for (size_t s = 0; s < stages.size(); ++s) {
    std::vector<int64_t> weight(problem.n_samples);
    for (uint32_t i = 0; i < problem.n_samples; ++i) {
      weight[i] = (*stages[s])[i];
      for (size_t later = s + 1; later < stages.size(); ++later) weight[i] += (*stages[later])[i] / 64;
    }
    std::vector<uint32_t> chosen, others;
    for (const uint32_t i : rest) (s + 1 == stages.size() || (*stages[s])[i] > 0 ? chosen : others).push_back(i);
    rest = std::move(others);
    Dealing dealing;
    dealing.bins = {0, problem.replicas, problem.micro_batches};
    dealing.weight = weight;
    dealing.slowness = problem.slowness;
    std::vector<int64_t> load = loads(packing, weight);
    deal(packing, dealing, heaviest_first(weight, chosen), load, left);
  }
  if (!repair(packing, std::move(left))) packing = feasible_packing(problem);
  return packing;
}

}  // namespace

Packing plan_two_stage(const Problem& problem, double within) {
  constexpr int kRounds = 4;
  Stages stages;
  for (const std::vector<int64_t>& cost : problem.stage_cost)
    if (!cost.empty()) stages.push_back(&cost);
  Packing packing = dealt(problem, stages);
  for (int round = 0; round < kRounds; ++round) {
    const int64_t before = objective_of(packing);
    for (size_t s = 0; s < stages.size(); ++s) {
      std::vector<Guard> guards;
      for (size_t other = 0; other < stages.size(); ++other)
        if (other != s) guards.push_back({*stages[other], slowest(packing, *stages[other])});
      Refining refining;
      refining.bins = {0, problem.replicas, problem.micro_batches};
      refining.weight = *stages[s];
      refining.slowness = problem.slowness;
      refining.target = static_cast<int64_t>(static_cast<double>(bound(problem, *stages[s])) * (1 + within));
      refining.most_steps = 4 * problem.replicas;
      refining.guards = guards;
      refine(packing, refining);
    }
    if (objective_of(packing) == before) break;
  }
  return packing;
}

}  // namespace lf::planning
