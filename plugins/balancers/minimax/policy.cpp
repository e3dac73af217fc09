#include "minimax/policy.h"

#include "lf/plugin_sdk/guard.hpp"
#include "minimax/lockstep.h"
#include "minimax/makespan.h"
#include "minimax/two_stage.h"
#include "minimax/whole_packs.h"
#include "planning/objective.h"
#include "planning/options.h"
#include "planning/places.h"
#include "planning/untied.h"

namespace lf::planning {

Minimax::Minimax(std::string_view options_json) {
  Setting moves{.name = "moves", .word = &moves_, .words = {"free", "few", "packs"}};
  Setting within{.name = "within", .number = &within_, .least = 0, .most = 1};
  read_settings(options_json, {moves, within});
  if (within_ < 0) within_ = moves_ == "few" ? 0.019 : 0.001;
}

Packing Minimax::pack(const Problem& problem) const {
  const bool one_barrier = problem.objective == LF_OBJECTIVE_MAKESPAN || problem.objective == LF_OBJECTIVE_SUM;
  if (moves_ == "packs") {
    const Packing packing = plan_whole_packs(problem, within_);
    if (!packing.complete())
      throw sdk::Failure(
          LF_E_INVALID,
          "balance.options: moves = \"packs\" moves micro-batches as they arrive, and these are empty or "
          "above the limits; set moves = \"free\"");
    return packing;
  }
  if (moves_ == "few") {
    if (!one_barrier)
      throw sdk::Failure(
          LF_E_INVALID,
          "balance.options: moves = \"few\" is for layouts whose replicas wait once a step; set moves to "
          "\"free\" or \"packs\"");
    return plan_few_moves(problem, within_);
  }
  if (problem.objective == LF_OBJECTIVE_LOCKSTEP) return plan_lockstep(problem, within_);
  if (!problem.stage_cost.empty()) return plan_two_stage(problem, within_);
  return plan_makespan(problem, within_);
}

void Minimax::plan(const lf_balance_input& input, lf_assignment* out, lf_balance_report& report) const {
  const Problem problem = make_problem(input);
  Packing packing = pack(problem);
  // The arrival is a plan too, and the better one where it is as good: nothing moves.
  if (objective_of(problem, problem.arrival) <= objective_of(packing)) {
    const Packing arrival = arrival_packing(problem);
    if (arrival.complete()) packing = arrival;
  }
  report.objective_seconds = static_cast<double>(objective_of(packing)) * problem.tick_seconds;
  report.lower_bound_seconds = static_cast<double>(simple_bound(problem)) * problem.tick_seconds;
  report.mean_seconds = static_cast<double>(problem.total_cost) / capacity(problem) * problem.tick_seconds;

  place_samples(input, packing.slots(), out);
  place_untied(input, packing.slots(), out);
  number_atoms(input, out);
}

}  // namespace lf::planning
