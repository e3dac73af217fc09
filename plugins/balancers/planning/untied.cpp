#include "planning/untied.h"

#include <utility>
#include <vector>

#include "planning/deal.h"
#include "planning/feasible.h"
#include "planning/order.h"
#include "planning/problem.h"
#include "planning/repair.h"

namespace lf::planning {
namespace {

// The part by itself: its atoms are the samples of a problem of one part.
Problem problem_of(const lf_balance_input& input, const lf_balance_part& part, std::vector<uint64_t>& numbers) {
  numbers.resize(part.n_atoms);
  for (uint64_t i = 0; i < part.n_atoms; ++i) numbers[i] = i;
  lf_balance_part alone = part;
  alone.tied = 1;
  alone.sample = numbers.data();
  lf_balance_input one = input;
  one.objective = LF_OBJECTIVE_MAKESPAN;
  one.n_parts = 1;
  one.parts = &alone;
  one.n_samples = part.n_atoms;
  Problem problem = make_problem(one);
  problem.fills_slots = false;
  return problem;
}

// Seconds that are already in each slot and that this part's atoms come on top of, in the ticks of `problem`.
std::vector<int64_t> base_load(const lf_balance_input& input, uint32_t part, const Problem& problem,
                               const lf_assignment* out) {
  std::vector<int64_t> load(problem.slots, 0);
  if (input.objective == LF_OBJECTIVE_TWO_STAGE) return load;
  for (uint32_t p = 0; p < input.n_parts; ++p) {
    const lf_balance_part& other = input.parts[p];
    const bool placed = other.tied != 0 || p + 1 == input.n_parts || p < part;
    for (uint64_t i = 0; i < other.n_atoms && placed; ++i)
      load[out[i].replica * problem.micro_batches + out[i].micro_batch] +=
          static_cast<int64_t>(other.seconds[i] / problem.tick_seconds + 0.5);
    out += other.n_atoms;
  }
  return load;
}

void deal_by_replica(Packing& packing, const std::vector<int64_t>& base, std::vector<uint32_t>& left) {
  const Problem& problem = packing.problem();
  Dealing dealing;
  dealing.bins = {0, problem.replicas, problem.micro_batches};
  dealing.weight = problem.cost;
  dealing.slowness = problem.slowness;
  std::vector<int64_t> load(problem.replicas, 0);
  for (int32_t slot = 0; slot < problem.slots; ++slot) load[slot / problem.micro_batches] += base[slot];
  deal(packing, dealing, heaviest_first(problem.cost), load, left);
}

// Micro-batch by micro-batch, in a copy whose replica r holds that micro-batch of r alone.
void deal_by_micro_batch(Packing& packing, const std::vector<int64_t>& base, std::span<const int32_t> home,
                         std::vector<uint32_t>& left) {
  const Problem& problem = packing.problem();
  Problem column = problem;
  column.micro_batches = 1;
  column.slots = problem.replicas;
  for (int32_t k = 0; k < problem.micro_batches; ++k) {
    std::vector<uint32_t> atoms;
    for (uint32_t i = 0; i < problem.n_samples; ++i)
      if (home[i] == k) atoms.push_back(i);
    Packing placed(column);
    Dealing dealing;
    dealing.bins = {0, problem.replicas, 1};
    dealing.weight = column.cost;
    dealing.slowness = column.slowness;
    std::vector<int64_t> load(problem.replicas, 0);
    for (int32_t r = 0; r < problem.replicas; ++r) load[r] = base[r * problem.micro_batches + k];
    deal(placed, dealing, heaviest_first(column.cost, atoms), load, left);
    for (const uint32_t i : atoms)
      if (placed.slot(i) != Packing::kNowhere) packing.put(i, placed.slot(i) * problem.micro_batches + k);
  }
}

}  // namespace

void place_untied(const lf_balance_input& input, std::span<const int32_t> slot, lf_assignment* out) {
  lf_assignment* atoms = out;
  for (uint32_t p = 0; p + 1 < input.n_parts; atoms += input.parts[p].n_atoms, ++p) {
    const lf_balance_part& part = input.parts[p];
    if (part.tied != 0 || part.n_atoms == 0) continue;
    std::vector<uint64_t> numbers;
    const Problem problem = problem_of(input, part, numbers);
    const std::vector<int64_t> base = base_load(input, p, problem, out);
    std::vector<int32_t> home(part.n_atoms);  // micro-batch of the sample
    for (uint64_t i = 0; i < part.n_atoms; ++i) home[i] = slot[part.sample[i]] % problem.micro_batches;

    Packing packing(problem);
    std::vector<uint32_t> left;
    if (input.objective == LF_OBJECTIVE_LOCKSTEP)
      deal_by_micro_batch(packing, base, home, left);
    else
      deal_by_replica(packing, base, left);
    place_left(packing, std::move(left));
    if (!packing.complete()) packing = feasible_packing(problem);
    const bool limited = problem.use > 0;
    for (uint64_t i = 0; i < part.n_atoms; ++i) {
      const int32_t place = packing.slot(static_cast<uint32_t>(i));
      atoms[i] = {place / problem.micro_batches, limited ? place % problem.micro_batches : home[i], 0, 0};
    }
  }
}

}  // namespace lf::planning
