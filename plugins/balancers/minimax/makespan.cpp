#include "minimax/makespan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "planning/deal.h"
#include "planning/feasible.h"
#include "planning/objective.h"
#include "planning/order.h"
#include "planning/refine.h"
#include "planning/repair.h"

namespace lf::planning {
namespace {

// A search that moves no more than this share of all tokens is good enough; else others are tried, which weigh gain
// against amount otherwise. At 8 ranks on long-tailed data one sample can be a thirtieth of all tokens.
constexpr double kFewEnough = 0.1;

struct Few {
  Packing packing;
  int64_t objective = 0, moved = 0;
};

int64_t moved_amount(const Packing& packing) {
  const Problem& problem = packing.problem();
  int64_t moved = 0;
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample)
    if (packing.replica(sample) != problem.arrival[sample] / problem.micro_batches) moved += problem.amounts(sample)[0];
  return moved;
}

int64_t target_of(const Problem& problem, double within) {
  return static_cast<int64_t>(static_cast<double>(simple_bound(problem)) * (1 + within));
}

void refine_replicas(Packing& packing, double within, bool thrifty, double thrift = 1) {
  const Problem& problem = packing.problem();
  Refining refining;
  refining.bins = {0, problem.replicas, problem.micro_batches};
  refining.weight = problem.cost;
  refining.slowness = problem.slowness;
  refining.base = problem.fixed * problem.micro_batches;
  refining.target = target_of(problem, within);
  refining.most_steps = 4 * problem.replicas + 256;  // few replicas need many small exchanges each
  refining.thrifty = thrifty;
  refining.thrift = thrift;
  if (objective_of(packing) > refining.target) refine(packing, refining);
}

// Samples go back to the replica that they arrived at where all stay within the target.
void bring_home(Packing& packing, int64_t target) {
  const Problem& problem = packing.problem();
  std::vector<int64_t> load(problem.replicas, problem.fixed * problem.micro_batches);
  std::vector<uint32_t> away;
  const auto home = [&](uint32_t sample) { return problem.arrival[sample] / problem.micro_batches; };
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample) {
    load[packing.replica(sample)] += problem.cost[sample];
    if (packing.replica(sample) != home(sample)) away.push_back(sample);
  }
  std::ranges::sort(away, [&](uint32_t a, uint32_t b) {
    const int64_t x = problem.amounts(a)[0], y = problem.amounts(b)[0];
    return x != y ? x > y : a < b;
  });
  const auto time = [&](int32_t replica, int64_t cost) { return time_on(problem, replica, load[replica] + cost); };
  const auto free_slot = [&](uint32_t sample, int32_t replica) {
    for (int32_t slot = replica * problem.micro_batches; slot < (replica + 1) * problem.micro_batches; ++slot)
      if (packing.fits(sample, slot)) return slot;
    return Packing::kNowhere;
  };
  const auto move = [&](uint32_t sample, int32_t slot) {
    load[packing.replica(sample)] -= problem.cost[sample];
    packing.take(sample);
    packing.put(sample, slot);
    load[packing.replica(sample)] += problem.cost[sample];
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const uint32_t sample : away) {
      const int32_t here = packing.replica(sample), there = home(sample);
      if (here == there) continue;
      if (packing.count(packing.slot(sample)) > 1 && time(there, problem.cost[sample]) <= target) {
        if (const int32_t slot = free_slot(sample, there); slot != Packing::kNowhere) {
          move(sample, slot);
          changed = true;
          continue;
        }
      }
      for (const uint32_t other : away) {  // in exchange for one that is a stranger there too
        if (packing.replica(other) != there || home(other) == there) continue;
        const int64_t shift = problem.cost[sample] - problem.cost[other];
        if (time(there, shift) > target || time(here, -shift) > target) continue;
        if (!packing.fits_instead(sample, other) || !packing.fits_instead(other, sample)) continue;
        const int32_t slot = packing.slot(other), back = packing.slot(sample);
        move(other, back);
        move(sample, slot);
        changed = true;
        break;
      }
    }
  }
}

}  // namespace

Packing plan_makespan(const Problem& problem, double within) {
  Packing packing(problem);
  Dealing dealing;
  dealing.bins = {0, problem.replicas, problem.micro_batches};
  dealing.weight = problem.cost;
  dealing.slowness = problem.slowness;
  std::vector<int64_t> load(problem.replicas, problem.fixed * problem.micro_batches);
  std::vector<uint32_t> left;
  deal(packing, dealing, heaviest_first(problem.cost), load, left);
  if (!repair(packing, std::move(left))) packing = feasible_packing(problem);
  refine_replicas(packing, within, false);
  return packing;
}

Packing plan_few_moves(const Problem& problem, double within) {
  Packing start = mended_arrival(problem);
  if (!start.complete()) start = feasible_packing(problem);
  const int64_t target = target_of(problem, within);
  int64_t all = 0;
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample) all += problem.amounts(sample)[0];
  std::optional<Few> best;
  for (const double thrift : {1.0, 0.5, 2.0, 0.0}) {
    Few one{start};
    refine_replicas(one.packing, within, true, thrift);
    one.objective = objective_of(one.packing);
    bring_home(one.packing, std::max(one.objective, target));
    one.objective = objective_of(one.packing);
    one.moved = moved_amount(one.packing);
    const auto worse = [&](const Few& few) { return std::pair(std::max(few.objective, target), few.moved); };
    if (!best || worse(one) < worse(*best)) best = std::move(one);
    if (best->objective <= target && static_cast<double>(best->moved) <= kFewEnough * static_cast<double>(all)) break;
  }
  return std::move(best->packing);
}

}  // namespace lf::planning
