#include "minimax/makespan.h"

#include <utility>

#include "planning/deal.h"
#include "planning/feasible.h"
#include "planning/objective.h"
#include "planning/order.h"
#include "planning/refine.h"
#include "planning/repair.h"

namespace lf::planning {
namespace {

void refine_replicas(Packing& packing, double within, bool thrifty) {
  const Problem& problem = packing.problem();
  Refining refining;
  refining.bins = {0, problem.replicas, problem.micro_batches};
  refining.weight = problem.cost;
  refining.slowness = problem.slowness;
  refining.base = problem.fixed * problem.micro_batches;
  refining.target = static_cast<int64_t>(static_cast<double>(simple_bound(problem)) * (1 + within));
  refining.most_steps = 4 * problem.replicas;
  refining.thrifty = thrifty;
  if (objective_of(packing) > refining.target) refine(packing, refining);
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
  Packing packing = mended_arrival(problem);
  if (!packing.complete()) packing = feasible_packing(problem);
  refine_replicas(packing, within, true);
  return packing;
}

}  // namespace lf::planning
