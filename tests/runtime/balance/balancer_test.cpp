// Policy, costs and trigger together, with a policy of the test's own.
#include "balance/balancer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>

#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"
#include "runtime/balance/simulated_machine.h"

namespace lf {
namespace {

using ::testing::HasSubstr;

// Heaviest first to the least loaded replica, its micro-batches in turn: a fair plan without the plugins.
int32_t plan_fairly(lf_balancer, const lf_balance_input* input, lf_assignment* out, lf_balance_report*, lf_err*) {
  const lf_balance_part& part = input->parts[input->n_parts - 1];
  std::vector<uint64_t> order(part.n_atoms);
  std::iota(order.begin(), order.end(), uint64_t{0});
  std::ranges::stable_sort(order, [&](uint64_t a, uint64_t b) { return part.seconds[a] > part.seconds[b]; });
  std::vector<double> load(part.replicas, 0.0);
  std::vector<int32_t> count(part.replicas, 0);
  for (const uint64_t i : order) {
    const auto r = static_cast<int32_t>(std::ranges::min_element(load) - load.begin());
    load[r] += part.seconds[i];
    out[i] = {r, count[r] % part.micro_batches, count[r] / part.micro_batches, 0};
    ++count[r];
  }
  return LF_OK;
}
// Everything to the first replica, but for one sample in each micro-batch: a foolish plan.
int32_t plan_foolishly(lf_balancer, const lf_balance_input* input, lf_assignment* out, lf_balance_report*, lf_err*) {
  const lf_balance_part& part = input->parts[input->n_parts - 1];
  const int32_t slots = part.replicas * part.micro_batches;
  for (int32_t i = 0; i < static_cast<int32_t>(part.n_atoms); ++i)
    out[i] = i < slots ? lf_assignment{i / part.micro_batches, i % part.micro_batches, 0, 0}
                       : lf_assignment{0, 0, i - slots + 1, 0};
  return LF_OK;
}
template <int32_t (*kPlan)(lf_balancer, const lf_balance_input*, lf_assignment*, lf_balance_report*, lf_err*)>
constexpr lf_balancer_api kTable = {{sizeof(lf_balancer_api), LF_ABI_MAJOR, LF_ABI_MINOR},
                                    [](const lf_host*, lf_str, lf_balancer* out, lf_err*) -> int32_t {
                                      *out = nullptr;
                                      return LF_OK;
                                    },
                                    [](lf_balancer, lf_err*) -> int32_t { return LF_OK; },
                                    kPlan};

Balancer new_balancer(int32_t replicas, TriggerSettings trigger = {}) {
  static const Policy fair("fair", &kTable<plan_fairly>, nullptr, "");
  return Balancer(fair, text_terms(), replicas, trigger);
}

StepAtoms open_step(const std::string& distribution, int64_t step, int32_t replicas, int64_t pack) {
  StepAtoms atoms = draw_step(distribution, step, replicas, 4, pack, 1);
  atoms.components[0].row_limit = 0;  // the policies here know no limits
  return atoms;
}

TEST(Balancer, it_waits_for_observations_and_then_balances_what_is_worth_it) {
  Random random(1);
  Balancer balancer = new_balancer(16);
  Machine machine;
  for (int64_t step = 0; step < 8; ++step) {
    const StepAtoms atoms = open_step("D5", step, 16, 131072);
    const StepPlan plan = balancer.plan(atoms);
    if (step == 0) {
      EXPECT_FALSE(plan.balanced);
      EXPECT_TRUE(std::isinf(plan.decision.standard_error));
    }
    if (step == 7) {
      EXPECT_TRUE(plan.balanced);
      EXPECT_LT(plan.plan.objective_seconds, plan.decision.arrival_seconds);
    }
    balancer.observe(step, seconds_of(machine, amounts_of(atoms, plan.plan.assignments, 16), 4, &random));
  }
}

TEST(Balancer, it_leaves_alone_what_would_cost_more_than_it_saves) {
  Random random(2);
  Balancer dear = new_balancer(16, {.errors = 2, .exposed_seconds = 1e6});
  for (int64_t step = 0; step < 8; ++step) {
    const StepAtoms atoms = open_step("D5", step, 16, 131072);
    const StepPlan plan = dear.plan(atoms);
    EXPECT_FALSE(plan.balanced);
    dear.observe(step, seconds_of(Machine{}, amounts_of(atoms, plan.plan.assignments, 16), 4, &random));
  }
}

TEST(Balancer, a_plan_that_is_worse_than_the_arrival_is_not_used) {
  const Policy foolish("foolish", &kTable<plan_foolishly>, nullptr, "");
  Balancer balancer(foolish, text_terms(), 16, {.errors = 0});
  Random random(2);
  for (int64_t step = 0; step < 3; ++step) {
    const StepAtoms atoms = open_step("D5", step, 16, 131072);
    const StepPlan plan = balancer.plan(atoms);
    EXPECT_EQ(plan.decision.balance, step == 0);  // and then it is known that its plans gain nothing
    EXPECT_FALSE(plan.balanced);
    EXPECT_DOUBLE_EQ(plan.plan.objective_seconds, plan.decision.arrival_seconds);
    balancer.observe(step, seconds_of(Machine{}, amounts_of(atoms, plan.plan.assignments, 16), 4, &random));
  }
}

TEST(Balancer, an_arrival_that_breaks_a_limit_is_planned_whatever_the_trigger_says) {
  Balancer balancer = new_balancer(2);
  StepAtoms atoms;
  atoms.n_samples = 4;
  atoms.objective = LF_OBJECTIVE_MAKESPAN;
  AtomTable table{
      true, 20, 0, {0, 1, 2, 3}, {10, 10, 10, 10}, {0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 0}, std::vector(8, 1.0)};
  atoms.components.push_back(table);
  EXPECT_TRUE(balancer.plan(atoms).balanced);
}

TEST(Balancer, predicted_and_measured_imbalance_agree_once_costs_are_learned) {
  Random random(3);
  Balancer balancer = new_balancer(16, {.errors = 1e9});  // never balances: imbalance stays large
  Machine machine;
  machine.noise = 0.01;
  double predicted = 0, measured = 0;
  for (int64_t step = 0; step < 30; ++step) {
    const StepAtoms atoms = open_step("D5", step, 16, 131072);
    const StepPlan plan = balancer.plan(atoms);
    const Observation seen =
        balancer.observe(step, seconds_of(machine, amounts_of(atoms, plan.plan.assignments, 16), 4, &random));
    ASSERT_TRUE(seen.known);
    if (step >= 15) predicted += seen.predicted_imbalance, measured += seen.measured_imbalance;
  }
  EXPECT_NEAR(predicted, measured, 0.15 * measured);
}

TEST(Balancer, observations_may_come_late_twice_or_of_unknown_steps) {
  Balancer balancer = new_balancer(4);
  std::vector<StepAtoms> steps;
  for (int64_t step = 0; step < 4; ++step) {
    steps.push_back(open_step("D1", step, 4, 16384));
    balancer.plan(steps.back());
  }
  const std::vector<double> seconds = {1, 2, 3, 4};
  EXPECT_TRUE(balancer.observe(2, seconds).known);
  EXPECT_TRUE(balancer.observe(0, seconds).known);
  EXPECT_FALSE(balancer.observe(2, seconds).known);
  EXPECT_FALSE(balancer.observe(77, seconds).known);
  EXPECT_EQ(balancer.model().steps(), 2);
}

TEST(Balancer, equal_numbers_give_equal_plans_on_every_rank) {
  Random a(4), b(4);
  Balancer one = new_balancer(16), other = new_balancer(16);
  for (int64_t step = 0; step < 6; ++step) {
    const StepAtoms atoms = open_step("D5", step, 16, 131072);
    const StepPlan p = one.plan(atoms), q = other.plan(atoms);
    ASSERT_EQ(p.plan.hash, q.plan.hash);
    one.observe(step, seconds_of(Machine{}, amounts_of(atoms, p.plan.assignments, 16), 4, &a));
    other.observe(step, seconds_of(Machine{}, amounts_of(atoms, q.plan.assignments, 16), 4, &b));
  }
}

TEST(Balancer, a_restored_one_goes_on_with_the_same_plans) {
  Random random(5);
  Balancer straight = new_balancer(16);
  StepAtoms atoms = open_step("D5", 0, 16, 131072);
  for (int64_t step = 0; step < 6; ++step) {
    atoms = open_step("D5", step, 16, 131072);
    const StepPlan plan = straight.plan(atoms);
    if (step < 5)
      straight.observe(step, seconds_of(Machine{}, amounts_of(atoms, plan.plan.assignments, 16), 4, &random));
  }
  Balancer resumed = new_balancer(16);
  resumed.restore(straight.state());
  EXPECT_TRUE(resumed.observe(5, std::vector<double>(16, 10.0)).known);  // planned before, observed after
  straight.observe(5, std::vector<double>(16, 10.0));
  const StepAtoms next = open_step("D5", 6, 16, 131072);
  EXPECT_EQ(resumed.plan(next).plan.hash, straight.plan(next).plan.hash);
  EXPECT_EQ(resumed.state(), straight.state());
}

TEST(Balancer, it_resumes_with_another_number_of_ranks) {
  Random random(6);
  Balancer before = new_balancer(16);
  for (int64_t step = 0; step < 6; ++step) {
    const StepAtoms atoms = open_step("D5", step, 16, 131072);
    const StepPlan plan = before.plan(atoms);
    if (step < 5) before.observe(step, seconds_of(Machine{}, amounts_of(atoms, plan.plan.assignments, 16), 4, &random));
  }
  Balancer after = new_balancer(8);
  after.restore(before.state());
  EXPECT_EQ(after.model().coefficients(), before.model().coefficients());
  EXPECT_FALSE(after.observe(5, std::vector<double>(8, 1.0)).known);  // that step was for 16
  EXPECT_TRUE(after.plan(open_step("D5", 6, 8, 131072)).balanced);
}

TEST(Balancer, a_state_that_is_no_state_is_bad_data) {
  Balancer balancer = new_balancer(2);
  for (const char* text : {"", "{}", R"({"model":"{}","gap":1,"pending":[]})"}) {
    try {
      balancer.restore(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::kBadData) << text;
    }
  }
}

std::string disagreement(std::vector<uint64_t> hashes) {
  try {
    check_agreement(12, hashes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Agreement, a_rank_with_another_plan_is_named_with_both_hashes) {
  EXPECT_THAT(disagreement({5, 5, 255}),
              HasSubstr("step 13: rank 2 made another plan (00000000000000ff) than rank 0 (0000000000000005)"));
  EXPECT_EQ(disagreement({5, 5, 5}), "");
}

}  // namespace
}  // namespace lf
