#include "balance/cost_model.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>

#include "balance/non_negative.h"
#include "core/error.h"
#include "runtime/balance/simulated_machine.h"

namespace lf {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kReplicas = 32, kMicroBatches = 4;
constexpr int64_t kPack = 131072;

CostModel new_model(int32_t replicas = kReplicas) { return CostModel(text_terms()[0].terms, replicas); }

// What each replica does in a step of D5 in packs, in arrival order. Steps repeat after 60, since drawing them is slow.
const std::vector<double>& amounts_at(int64_t step, int32_t replicas) {
  static std::map<std::pair<int64_t, int32_t>, std::vector<double>> drawn;
  std::vector<double>& amounts = drawn[{step % 60, replicas}];
  if (amounts.empty()) {
    const StepAtoms atoms = draw_step("D5", step % 60, replicas, kMicroBatches, kPack, 1);
    amounts = amounts_of(atoms, arrival_of(atoms), replicas);
  }
  return amounts;
}

void train(CostModel& model, const Machine& machine, int64_t first, int64_t steps, Random& random,
           int32_t replicas = kReplicas) {
  for (int64_t step = first; step < first + steps; ++step) {
    const std::vector<double>& amounts = amounts_at(step, replicas);
    model.observe(seconds_of(machine, amounts, kMicroBatches, &random), amounts, kMicroBatches);
  }
}

std::vector<double> predicted(const CostModel& model, const std::vector<double>& amounts) {
  const Machine learned{model.coefficients()[0], model.coefficients()[1], model.fixed_seconds(), 0, model.speeds()};
  return seconds_of(learned, amounts, kMicroBatches, nullptr);
}

TEST(CostModel, two_seconds_fixed_and_five_percent_noise_leave_the_predicted_imbalance_right_after_20_steps) {
  Random random(1);
  CostModel model = new_model();
  const Machine machine;  // 4 micro-batches of 0.5 s fixed
  train(model, machine, 0, 20, random);
  double predicted_sum = 0, true_sum = 0;
  for (int64_t step = 20; step < 40; ++step) {
    const std::vector<double>& amounts = amounts_at(step, kReplicas);
    predicted_sum += imbalance_of(predicted(model, amounts));
    true_sum += imbalance_of(seconds_of(machine, amounts, kMicroBatches, nullptr));
  }
  EXPECT_GT(true_sum / 20, 0.1);
  EXPECT_NEAR(predicted_sum, true_sum, 0.1 * true_sum) << model.describe();
}

// Relative error of the imbalance that is predicted for the steps 20 to 39 of D1, whose packs are nearly alike.
double error_of_imbalance(bool by_micro_batch, uint64_t seed) {
  static std::map<int64_t, StepAtoms> steps;
  Machine machine, noisy;
  if (by_micro_batch) noisy.noise *= std::sqrt(double{kMicroBatches});  // then a step has as much noise as otherwise
  CostModel model = new_model();
  Random random(seed);
  double predicted_sum = 0, true_sum = 0;
  for (int64_t step = 0; step < 40; ++step) {
    if (!steps.contains(step)) steps[step] = draw_step("D1", step, kReplicas, kMicroBatches, 16384, 1);
    const StepAtoms& atoms = steps[step];
    const std::vector<double> amounts = amounts_of(atoms, arrival_of(atoms), kReplicas);
    if (step >= 20) {
      predicted_sum += imbalance_of(predicted(model, amounts));
      true_sum += imbalance_of(seconds_of(machine, amounts, kMicroBatches, nullptr));
    } else if (by_micro_batch) {
      const std::vector<double> pieces = micro_batch_amounts_of(atoms, arrival_of(atoms), kReplicas);
      model.observe(seconds_of(noisy, pieces, 1, &random), pieces, 1);
    } else {
      model.observe(seconds_of(machine, amounts, kMicroBatches, &random), amounts, kMicroBatches);
    }
  }
  return predicted_sum / true_sum - 1;
}

TEST(CostModel, micro_batches_timed_one_by_one_tell_costs_better_than_whole_steps) {
  double whole = 0, apart = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    whole += std::pow(error_of_imbalance(false, seed), 2) / 12;
    apart += std::pow(error_of_imbalance(true, seed), 2) / 12;
  }
  // Four times the observations of four times the variance, but twice the spread: half the error.
  EXPECT_LT(std::sqrt(apart), 0.7 * std::sqrt(whole));
}

TEST(CostModel, where_steps_are_nearly_alike_the_imbalance_is_right_within_a_tenth_after_20_steps_too) {
  for (uint64_t seed = 1; seed <= 10; ++seed) EXPECT_LT(std::abs(error_of_imbalance(true, seed)), 0.1) << seed;
}

TEST(CostModel, a_micro_batch_without_samples_is_not_learned_from) {
  CostModel with(text_terms()[0].terms, 2), without(text_terms()[0].terms, 2);
  for (int step = 1; step < 20; ++step) {
    const double x = 1 + step % 3, y = 2 + step % 5;
    with.observe(std::vector<double>{x, 1e-6, y, 2}, std::vector<double>{x, 1, 0, 0, y, 2, 2, 1}, 1);
    without.observe(std::vector<double>{x, 0, y, 2}, std::vector<double>{x, 1, 0, 0, y, 2, 2, 1}, 1);
  }
  EXPECT_EQ(with.coefficients(), without.coefficients());
}

TEST(CostModel, what_slows_all_replicas_alike_is_not_counted_as_their_own_noise) {
  Random random(12);
  CostModel model = new_model();
  Machine machine;
  machine.noise = 0.02;
  for (int64_t step = 0; step < 120; ++step) {
    const std::vector<double>& amounts = amounts_at(step, kReplicas);
    std::vector<double> seconds = seconds_of(machine, amounts, kMicroBatches, &random);
    const double together = 1 + 0.1 * random.normal();
    for (double& s : seconds) s *= together;
    model.observe(seconds, amounts, kMicroBatches);
  }
  EXPECT_NEAR(model.own_noise(), 0.02, 0.006);
  EXPECT_GT(model.noise(), 0.05);
}

TEST(CostModel, without_noise_the_true_coefficients_come_out) {
  Random random(1);
  CostModel model = new_model();
  Machine machine;
  machine.noise = 0;
  train(model, machine, 0, 200, random);
  EXPECT_NEAR(model.coefficients()[0] / machine.linear, 1, 0.02);
  EXPECT_NEAR(model.coefficients()[1] / machine.attention, 1, 0.02);
  EXPECT_NEAR(model.fixed_seconds() / machine.fixed, 1, 0.1);
}

TEST(CostModel, the_standard_error_covers_the_true_error) {
  // The error of the attention term against what the model says of it, over runs of other noise: within two standard
  // errors nearly always. (The prior pulls a little, so not exactly in 95 of 100.)
  const Machine machine;
  int within = 0;
  for (int run = 0; run < 20; ++run) {
    Random random(100 + run);
    CostModel model = new_model();
    train(model, machine, 0, 20, random);
    const std::vector<double> attention = {0, 1e16};
    const double error = std::abs(model.coefficients()[1] - machine.attention) * 1e16;
    within += error < 2.5 * model.standard_error(attention, 0);
  }
  EXPECT_GE(within, 16);
}

TEST(CostModel, a_slowdown_of_a_fifth_is_found_within_15_steps) {
  for (const int32_t replicas : {1, 4, 32}) {
    Random random(3);
    CostModel model = new_model(replicas);
    Machine machine;
    train(model, machine, 0, 60, random, replicas);
    EXPECT_EQ(model.drifts(), 0) << replicas;
    machine.linear *= 1.2;
    machine.attention *= 1.2;
    machine.fixed *= 1.2;
    int64_t steps = 0;
    while (model.drifts() == 0 && steps < 40) train(model, machine, 60 + steps++, 1, random, replicas);
    EXPECT_LE(steps, 15) << replicas << " replicas";
  }
}

TEST(CostModel, after_a_change_the_new_costs_are_learned_quickly) {
  Random random(4);
  CostModel model = new_model();
  Machine machine;
  train(model, machine, 0, 60, random);
  machine.attention *= 3;
  train(model, machine, 60, 25, random);
  EXPECT_GE(model.drifts(), 1);
  EXPECT_NEAR(model.coefficients()[1] / machine.attention, 1, 0.1);
}

TEST(CostModel, a_steady_machine_raises_no_alarm_in_a_thousand_steps) {
  Random random(5);
  int64_t alarms = 0;
  for (int run = 0; run < 5; ++run) {
    CostModel model = new_model(8);
    train(model, Machine{}, 0, 1000, random, 8);
    alarms += model.drifts();
  }
  EXPECT_LE(alarms, 5);
}

TEST(CostModel, a_replica_three_times_slower_is_known_as_such_and_its_times_do_not_spoil_the_costs) {
  Random random(6);
  CostModel model = new_model();
  Machine machine;
  machine.speed.assign(kReplicas, 1.0);
  machine.speed[7] = 1.0 / 3;
  train(model, machine, 0, 60, random);
  const std::vector<double> speeds = model.speeds();
  for (int32_t r = 0; r < kReplicas; ++r) EXPECT_NEAR(speeds[r], r == 7 ? 1.0 / 3 : 1, 0.05) << r;
  EXPECT_NEAR(model.coefficients()[1] / machine.attention, 1, 0.15);
}

TEST(CostModel, times_that_are_no_times_are_left_out) {
  Random random(7);
  CostModel model = new_model(4), clean = new_model(4);
  train(clean, Machine{}, 0, 10, random, 4);
  Random again(7);
  train(model, Machine{}, 0, 10, again, 4);
  model.observe(std::vector<double>{std::nan(""), -1, 0, HUGE_VAL}, amounts_at(10, 4), kMicroBatches);
  EXPECT_EQ(model.ignored(), 4);
  EXPECT_EQ(model.coefficients(), clean.coefficients());
}

TEST(CostModel, coefficients_are_never_below_zero) {
  // Times that fall with the amount of attention.
  CostModel model = new_model(4);
  for (int step = 0; step < 30; ++step)
    model.observe(std::vector<double>{4, 3, 2, 1}, std::vector<double>{5, 1, 5, 2, 5, 3, 5, 4}, 1);
  for (const double coefficient : model.coefficients()) EXPECT_GE(coefficient, 0);
  EXPECT_GE(model.fixed_seconds(), 0);
}

TEST(CostModel, a_restored_model_goes_on_bit_for_bit) {
  Random random(8);
  CostModel straight = new_model();
  train(straight, Machine{}, 0, 15, random);
  CostModel resumed = new_model();
  resumed.restore(straight.state());
  Random a(9), b(9);
  train(straight, Machine{}, 15, 15, a);
  train(resumed, Machine{}, 15, 15, b);
  EXPECT_EQ(resumed.state(), straight.state());
}

TEST(CostModel, a_state_of_another_number_of_replicas_keeps_costs_and_forgets_speeds) {
  Random random(10);
  CostModel before = new_model(8);
  Machine machine;
  machine.speed = {1, 1, 1, 0.5, 1, 1, 1, 1};
  train(before, machine, 0, 40, random, 8);
  ASSERT_LT(before.speeds()[3], 0.6);
  CostModel after = new_model(4);
  after.restore(before.state());
  EXPECT_EQ(after.coefficients(), before.coefficients());
  EXPECT_THAT(after.speeds(), ::testing::Each(1.0));
}

TEST(CostModel, a_state_of_other_terms_is_refused) {
  CostModel model({{"language.linear", 1}}, 4);
  try {
    model.restore(new_model(4).state());
    FAIL() << "it was restored";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kBadData);
    EXPECT_THAT(error.what(), HasSubstr("language.attention"));
  }
}

TEST(NonNegative, the_solution_satisfies_the_conditions_of_an_optimum) {
  Random random(11);
  for (int trial = 0; trial < 500; ++trial) {
    const size_t n = 1 + random.below(6);
    std::vector<double> m(n * n), a(n * n, 0.0), b(n);
    for (double& value : m) value = random.normal();
    for (double& value : b) value = random.normal();
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        for (size_t k = 0; k < n; ++k) a[i * n + j] += m[k * n + i] * m[k * n + j];
        if (i == j) a[i * n + j] += 0.1;
      }
    const std::vector<double> x = solve_non_negative(a, b);
    for (size_t i = 0; i < n; ++i) {
      double slope = b[i];  // half the negative gradient
      for (size_t j = 0; j < n; ++j) slope -= a[i * n + j] * x[j];
      ASSERT_GE(x[i], 0);
      ASSERT_LT(slope, 1e-8);  // nothing to gain by more of it
      if (x[i] > 0) {
        ASSERT_NEAR(slope, 0, 1e-8);  // nor by less
      }
    }
  }
}

}  // namespace
}  // namespace lf
