#include "minimax/whole_packs.h"

#include <numeric>

#include "minimax/lockstep.h"
#include "minimax/makespan.h"

namespace lf::planning {

Packing plan_whole_packs(const Problem& problem, double within) {
  const Packing arrival = arrival_packing(problem);
  if (problem.objective == LF_OBJECTIVE_LOCKSTEP) return ordered_for_lockstep(arrival);

  // Packs are the samples of a smaller problem: one slot for each replica, which holds as many as a step has
  // micro-batches.
  Problem packs;
  packs.objective = LF_OBJECTIVE_MAKESPAN;
  packs.replicas = problem.replicas;
  packs.micro_batches = 1;
  packs.slots = problem.replicas;
  packs.n_samples = static_cast<uint32_t>(problem.slots);
  packs.cost = slot_costs(arrival);
  packs.total_cost = problem.total_cost;
  packs.n_limits = 1;
  packs.use = 1;
  packs.limit = {problem.micro_batches};
  packs.amount.assign(packs.n_samples, 1);
  packs.fixed = problem.fixed * problem.micro_batches;
  packs.slowness = problem.slowness;
  for (int32_t slot = 0; slot < problem.slots; ++slot) packs.arrival.push_back(slot / problem.micro_batches);
  const Packing dealt = plan_makespan(packs, within);

  std::vector<int32_t> next(problem.replicas, 0), to(problem.slots);
  for (int32_t pack = 0; pack < problem.slots; ++pack) {
    const int32_t replica = dealt.slot(pack);
    to[pack] = replica * problem.micro_batches + next[replica]++;
  }
  Packing packing(problem);
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample) packing.put(sample, to[problem.arrival[sample]]);
  return packing;
}

}  // namespace lf::planning
