#include "minimax/lockstep.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "planning/deal.h"
#include "planning/feasible.h"
#include "planning/objective.h"
#include "planning/order.h"
#include "planning/refine.h"
#include "planning/repair.h"

namespace lf::planning {
namespace {

// The problem with every micro-batch as a replica of its own. Slot k * replicas + r stands for replica r's micro-batch
// k.
Problem unfolded(const Problem& problem) {
  Problem flat = problem;
  flat.replicas = problem.slots;
  flat.micro_batches = 1;
  for (int32_t k = 1; k < problem.micro_batches && !problem.slowness.empty(); ++k)
    flat.slowness.insert(flat.slowness.end(), problem.slowness.begin(), problem.slowness.end());
  for (int32_t& slot : flat.arrival)
    slot = slot % problem.micro_batches * problem.replicas + slot / problem.micro_batches;
  return flat;
}

Packing folded(const Packing& flat, const Problem& problem) {
  Packing packing(problem);
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample) {
    const int32_t slot = flat.slot(sample);
    packing.put(sample, slot % problem.replicas * problem.micro_batches + slot / problem.replicas);
  }
  return packing;
}

void level(Packing& flat, const Problem& problem, Bins bins, int64_t target) {
  Refining refining;
  refining.bins = bins;
  refining.weight = problem.cost;
  refining.slowness = problem.slowness.empty() ? std::span<const double>() : std::span(flat.problem().slowness);
  refining.base = problem.fixed;
  refining.target = target;
  refining.most_steps = 2 * bins.count;
  refine(flat, refining);
}

// What the later slots have no room for must stay here, above the level if need be: the lightest samples, which raise
// it least.
void absorb(Packing& flat, Dealing dealing, std::vector<int64_t>& load, std::vector<uint32_t>& rest,
            int32_t later_slots) {
  constexpr double kFill = 0.98;  // of the later slots' room; the last percents would be hard to use
  const Problem& problem = flat.problem();
  double excess = -kFill * static_cast<double>(problem.limit[0]) * later_slots;
  for (const uint32_t sample : rest) excess += static_cast<double>(problem.amounts(sample)[0]);
  size_t keep = rest.size();
  while (excess > 0 && keep > 0) excess -= static_cast<double>(problem.amounts(rest[--keep])[0]);
  const std::vector<uint32_t> lightest(rest.begin() + static_cast<ptrdiff_t>(keep), rest.end());
  rest.resize(keep);
  dealing.level = std::numeric_limits<int64_t>::max();
  deal(flat, dealing, lightest, load, rest);
}

}  // namespace

Packing plan_lockstep(const Problem& problem, double within) {
  const Problem flat_problem = unfolded(problem);
  Packing flat(flat_problem);
  const double per_micro_batch = capacity(problem);
  std::vector<uint32_t> rest = heaviest_first(problem.cost);
  std::vector<std::pair<Bins, double>> levelled;  // and the mean there
  for (int32_t k = 0; k < problem.micro_batches && !rest.empty(); ++k) {
    int64_t work = 0;
    for (const uint32_t sample : rest) work += problem.cost[sample];
    const double mean = static_cast<double>(work) / (per_micro_batch * (problem.micro_batches - k));
    const int64_t heaviest = problem.cost[rest.front()];
    const bool cuts = k + 1 == problem.micro_batches || static_cast<double>(heaviest) <= mean;
    Dealing dealing;
    dealing.bins = {k * problem.replicas, cuts ? problem.slots - k * problem.replicas : problem.replicas, 1};
    dealing.weight = problem.cost;
    if (!problem.slowness.empty()) dealing.slowness = std::span(flat_problem.slowness).first(dealing.bins.count);
    if (!cuts) dealing.level = heaviest;
    std::vector<int64_t> load(dealing.bins.count, 0);
    std::vector<uint32_t> left;
    deal(flat, dealing, rest, load, left);
    rest = std::move(left);
    if (cuts) {
      levelled.emplace_back(dealing.bins, mean);
      break;
    }
    absorb(flat, dealing, load, rest, problem.slots - (k + 1) * problem.replicas);
  }
  if (!repair(flat, std::move(rest))) return ordered_for_lockstep(feasible_packing(problem));
  for (const auto& [bins, mean] : levelled) level(flat, problem, bins, static_cast<int64_t>(mean * (1 + within)));
  return ordered_for_lockstep(folded(flat, problem));
}

Packing ordered_for_lockstep(const Packing& packing) {
  const Problem& problem = packing.problem();
  const std::vector<int64_t> costs = slot_costs(packing);
  std::vector<int32_t> slots(problem.slots), replicas(problem.replicas);
  std::iota(slots.begin(), slots.end(), 0);
  std::iota(replicas.begin(), replicas.end(), 0);
  std::ranges::stable_sort(slots, [&](int32_t a, int32_t b) { return costs[a] > costs[b]; });
  if (!problem.slowness.empty())
    std::ranges::stable_sort(replicas, [&](int32_t a, int32_t b) { return problem.slowness[a] < problem.slowness[b]; });
  std::vector<int32_t> to(problem.slots);
  for (int32_t i = 0; i < problem.slots; ++i)
    to[slots[i]] = replicas[i % problem.replicas] * problem.micro_batches + i / problem.replicas;
  Packing ordered(problem);
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample) ordered.put(sample, to[packing.slot(sample)]);
  return ordered;
}

}  // namespace lf::planning
