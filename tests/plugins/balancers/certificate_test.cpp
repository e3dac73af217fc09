// The certificate: its objectives by hand, its bound against the best plan of all.
#include "balance/certificate.h"

#include <cmath>

#include <gmock/gmock.h>

#include "plugins/balancers/problems.h"

namespace lf {
namespace {

using ::testing::HasSubstr;

// Two replicas, two micro-batches: seconds 1, 2 on replica 0; 3, 5 on replica 1.
BalanceInput four_samples() { return plain_problem(2, 2, {1, 2, 3, 5}); }
const std::vector<lf_assignment> kInOrder = {{0, 0, 0, 0}, {0, 1, 0, 0}, {1, 0, 0, 0}, {1, 1, 0, 0}};

double objective(BalanceInput input, int32_t which) {
  input.objective = which;
  std::vector<lf_assignment> places;
  for (size_t p = 0; p < input.parts.size(); ++p) places.insert(places.end(), kInOrder.begin(), kInOrder.end());
  return objective_seconds(input, places);
}

TEST(Certificate, each_objective_counts_where_its_layout_waits) {
  EXPECT_DOUBLE_EQ(objective(four_samples(), LF_OBJECTIVE_MAKESPAN), 8);  // 3 + 5
  EXPECT_DOUBLE_EQ(objective(four_samples(), LF_OBJECTIVE_SUM), 8);
  EXPECT_DOUBLE_EQ(objective(four_samples(), LF_OBJECTIVE_LOCKSTEP), 8);  // max(1, 3) + max(2, 5)
  BalanceInput two = four_samples();
  two.parts.insert(two.parts.begin(), two.parts[0]);
  two.parts[0].seconds = {7, 0, 0, 1};
  EXPECT_DOUBLE_EQ(objective(two, LF_OBJECTIVE_TWO_STAGE), 15);  // max(7, 1) + max(3, 8)
  EXPECT_DOUBLE_EQ(objective(two, LF_OBJECTIVE_SUM), 10);        // max(7 + 3, 1 + 8)
  EXPECT_DOUBLE_EQ(objective(two, LF_OBJECTIVE_LOCKSTEP), 14);   // max(8, 3) + max(2, 6)
}

TEST(Certificate, fixed_seconds_and_speeds_count_on_every_replica) {
  BalanceInput input = four_samples();
  input.fixed_seconds = 0.5;
  input.speed = {0.25, 1};
  EXPECT_DOUBLE_EQ(objective(input, LF_OBJECTIVE_MAKESPAN), 16);  // (3 + 2 * 0.5) / 0.25
  EXPECT_DOUBLE_EQ(objective(input, LF_OBJECTIVE_LOCKSTEP), 16);  // 1.5 / 0.25 + 2.5 / 0.25
}

TEST(Certificate, the_bound_is_never_above_the_best_plan_of_all) {
  Random random(7);
  int bounded_by_limits = 0, tried = 0;
  while (tried < 400) {
    BalanceInput input =
        draw_problem(random, {.most_replicas = 3, .most_micro_batches = 2, .most_samples_per_slot = 3});
    const double plans = std::pow(input.replicas * input.micro_batches, input.n_samples);
    if (plans > 4096 || input.n_samples == 0) continue;
    if (input.parts.size() > 1) input.parts[0].tied = true, input.parts[0].row_limit = 0;
    const double best = best_by_trying_all(input);
    if (!std::isfinite(best)) continue;
    ++tried;
    std::vector<lf_assignment> arrival;
    for (const BalancePart& part : input.parts)
      for (size_t i = 0; i < part.sample.size(); ++i)
        arrival.push_back({part.arrival_replica[i], part.arrival_micro_batch[i], 0, 0});
    const Certificate certificate = certify(input, arrival);
    EXPECT_LE(certificate.lower_bound, best * (1 + 1e-9))
        << "objective " << input.objective << ", " << input.replicas << " x " << input.micro_batches << ", "
        << input.n_samples << " samples";
    EXPECT_GE(certificate.lower_bound, certificate.mean * (1 - 1e-12));
    bounded_by_limits += certificate.limited > certificate.heaviest * (1 + 1e-9);
  }
  EXPECT_GT(bounded_by_limits, 5);  // else the bound by limits was not tested
}

TEST(Certificate, one_heavy_sample_is_named_as_what_keeps_the_bound_up) {
  const BalanceInput input = plain_problem(2, 1, {10, 1, 1});
  const Certificate certificate = certify(input, std::vector<lf_assignment>{{0, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 1, 0}});
  EXPECT_DOUBLE_EQ(certificate.lower_bound, 10);
  EXPECT_DOUBLE_EQ(certificate.gap(), 0);
  EXPECT_THAT(certificate.remedy, HasSubstr("one sample keeps the bound 1.67 times above the mean"));
}

TEST(Certificate, a_tight_limit_is_named_as_what_keeps_the_bound_up) {
  // The long sample costs ten times as much for a row; with it a replica can hold no more, and the others are full.
  BalanceInput input = plain_problem(2, 1, {100, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10},
                                     {10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10});
  input.parts[0].row_limit = 70;
  std::vector<lf_assignment> places;
  for (int32_t i = 0; i < 13; ++i) places.push_back({i < 7 ? 0 : 1, 0, i, 0});
  const Certificate certificate = certify(input, places);
  EXPECT_DOUBLE_EQ(certificate.objective, 160);
  EXPECT_NEAR(certificate.lower_bound, 150, 1e-6);  // 70 rows at most on the other one, so 60 here: 100 + 50
  EXPECT_THAT(certificate.remedy, HasSubstr("raise data.max_tokens"));
}

}  // namespace
}  // namespace lf
