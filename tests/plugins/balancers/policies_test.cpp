// What is particular to a policy, and the cases that ended runs elsewhere.
#include <gmock/gmock.h>

#include "balance/certificate.h"
#include "balance/evaluate.h"
#include "balance/scenario.h"
#include "core/error.h"
#include "plugins/balancers/problems.h"

namespace lf {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& policy, const std::string& options) {
  try {
    make_policy(policy, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kConfig);
    return error.what();
  }
  return "accepted";
}

TEST(Policies, a_setting_that_is_not_known_is_refused_with_those_that_are) {
  EXPECT_EQ(refusal("minimax", R"({"move":"few"})"),
            "balancer minimax: balance.options: unknown setting move; this policy's settings: moves, within");
  EXPECT_THAT(refusal("none", R"({"a":1})"), HasSubstr("this policy's settings: none"));
}

TEST(Policies, a_setting_of_the_wrong_kind_is_refused_with_what_was_expected) {
  EXPECT_THAT(refusal("minimax", R"({"moves":"some"})"), HasSubstr(R"(expected one of free, few, packs, got "some")"));
  EXPECT_THAT(refusal("minimax", R"({"within":-1})"), HasSubstr("expected a number from 0.0 to 1.0, got -1"));
  EXPECT_THAT(refusal("minimax", "[]"), HasSubstr("expected a table"));
}

TEST(Policies, all_settings_that_are_wrong_are_told_at_once_a_line_each) {
  EXPECT_EQ(refusal("minimax", R"({"moves":"many","within":-1,"zz":3})"),
            "balancer minimax: balance.options: moves: expected one of free, few, packs, got \"many\"\n"
            "balance.options: within: expected a number from 0.0 to 1.0, got -1\n"
            "balance.options: unknown setting zz; this policy's settings: moves, within");
}

TEST(Policies, none_leaves_everything_where_it_arrived) {
  Random random(1);
  for (int i = 0; i < 100; ++i) {
    const BalanceInput input = draw_problem(random, {});
    EXPECT_EQ(evaluate(make_policy("none"), input).moved_tokens, 0);
  }
}

TEST(Policies, minimax_stays_within_grahams_bound_of_the_best_plan_of_all) {
  // Without limits, longest first is at most 4/3 - 1/(3m) times the best (Graham 1969); exchanges only lower it. A
  // micro-batch for each replica, so that none may stay empty.
  Random random(2);
  const Policy minimax = make_policy("minimax");
  for (int trial = 0; trial < 200; ++trial) {
    const auto replicas = static_cast<int32_t>(2 + random.below(2));
    std::vector<double> seconds(replicas + random.below(6));
    for (double& s : seconds) s = 0.1 + random.uniform();
    const BalanceInput input = plain_problem(replicas, 1, seconds);
    const double best = best_by_trying_all(input);
    EXPECT_LE(minimax.plan(input).objective_seconds, best * (4.0 / 3 - 1.0 / (3 * replicas)) * (1 + 1e-9));
  }
}

TEST(Policies, a_sample_heavier_than_all_others_together_keeps_its_replica_to_itself) {
  std::vector<double> seconds(40, 1.0);
  seconds[17] = 1000;
  const BalanceInput input = plain_problem(4, 2, seconds);
  for (const char* name : {"longest_first", "minimax"}) {
    const BalancePlan plan = make_policy(name).plan(input);
    EXPECT_DOUBLE_EQ(plan.objective_seconds, 1001) << name;  // and one for its other micro-batch
    EXPECT_DOUBLE_EQ(plan.lower_bound_seconds, 1001) << name;
    EXPECT_THAT(plan.remedy, HasSubstr("one sample keeps the bound"));
  }
}

TEST(Policies, a_replica_three_times_slower_gets_a_third_of_the_work) {
  BalanceInput input = plain_problem(4, 2, std::vector<double>(200, 1.0));
  input.speed = {1, 1, 1.0 / 3, 1};
  const BalancePlan plan = make_policy("minimax").plan(input);
  const size_t slow = plan.samples[2][0].size() + plan.samples[2][1].size();
  EXPECT_EQ(slow, 20u);  // 200 * (1/3) / (10/3)
  EXPECT_DOUBLE_EQ(plan.objective_seconds, 60);
}

TEST(Policies, what_a_slow_replica_takes_besides_its_samples_leaves_it_less_of_them) {
  // 24 samples of 1 s, 1 s fixed; the second replica at a third of the speed: n1 + 1 = 3 * (n2 + 1), n1 + n2 = 24.
  BalanceInput input = plain_problem(2, 1, std::vector<double>(24, 1.0));
  input.speed = {1, 1.0 / 3};
  input.fixed_seconds = 1;
  const BalancePlan plan = make_policy("minimax").plan(input);
  EXPECT_NEAR(plan.objective_seconds, 20,
              1e-6);  // 19 + 1 and 3 * (5 + 1); by speeds alone it would be 18 + 1 and 3 * (6 + 1)
}

TEST(Policies, lengths_whose_square_overflows_32_bits_are_planned_by_their_true_cost) {
  std::vector<WorkSample> samples(64, WorkSample{"", 1000, 0, 0});
  samples[5].text_tokens = samples[50].text_tokens = 100'000;  // 10^10
  const BalanceInput input =
      scenario_input(samples, named_cost("8B"), {.replicas = 4, .micro_batches = 2, .cap = 1.05});
  for (const char* name : {"longest_first", "karmarkar_karp", "minimax"}) {
    const BalancePlan plan = make_policy(name).plan(input);
    int32_t of[2] = {-1, -1};
    for (int32_t r = 0; r < 4; ++r)
      for (const auto& micro_batch : plan.samples[r])
        for (const uint32_t i : micro_batch) {
          if (i == 5) of[0] = r;
          if (i == 50) of[1] = r;
        }
    EXPECT_NE(of[0], of[1]) << name << " put both long samples on one replica";
  }
}

TEST(Policies, a_sample_of_100000_tokens_fits_where_the_limit_lets_it_and_has_a_micro_batch_of_its_own) {
  std::vector<double> seconds(40, 1.0);
  std::vector<int64_t> rows(40, 2'000);
  seconds[7] = 2'500;  // its length squared, against theirs
  rows[7] = 100'000;
  BalanceInput input = plain_problem(4, 2, seconds, rows);
  input.parts[0].row_limit = 100'000;
  for (const std::string& name : policy_names()) {
    if (name == "none") continue;  // everything arrives in one micro-batch, above the limit
    const BalancePlan plan = make_policy(name).plan(input);
    const lf_assignment& place = plan.assignments[7];
    EXPECT_EQ(plan.samples[place.replica][place.micro_batch].size(), 1u) << name;
  }
}

TEST(Policies, fewer_samples_than_micro_batches_leave_some_empty_and_are_all_placed) {
  for (const int32_t objective :
       {LF_OBJECTIVE_MAKESPAN, LF_OBJECTIVE_LOCKSTEP, LF_OBJECTIVE_TWO_STAGE, LF_OBJECTIVE_SUM})
    for (const std::string& name : policy_names()) {
      BalanceInput input = plain_problem(4, 3, {5, 4, 3});
      input.objective = objective;
      size_t placed = 0;
      const BalancePlan plan = make_policy(name).plan(input);
      for (const auto& replica : plan.samples)
        for (const auto& micro_batch : replica) placed += micro_batch.size();
      EXPECT_EQ(placed, 3u) << name;
      if (name == "minimax") {
        EXPECT_DOUBLE_EQ(plan.objective_seconds, 5) << name << ", objective " << objective;
      }
    }
}

TEST(Policies, ranks_without_images_have_a_plan_like_all_others) {
  std::vector<WorkSample> samples;
  for (int i = 0; i < 64; ++i) samples.push_back({"", 500, i < 4 ? 4096 : 0, i < 4 ? 4 : 0});
  for (const int32_t objective : {LF_OBJECTIVE_SUM, LF_OBJECTIVE_TWO_STAGE, LF_OBJECTIVE_LOCKSTEP}) {
    const BalanceInput input = scenario_input(samples, named_cost("0.6B+8B"),
                                              {.replicas = 8, .micro_batches = 2, .cap = 0, .objective = objective});
    for (const std::string& name : policy_names()) EXPECT_NO_THROW(make_policy(name).plan(input)) << name;
  }
}

TEST(Policies, frames_of_one_video_are_spread_where_they_are_atoms) {
  std::vector<WorkSample> samples(16, WorkSample{"", 600, 1024, 1});
  samples[3] = {"", 100, 64 * 1024, 64};
  Scenario scenario{.replicas = 4, .micro_batches = 2, .cap = 0, .objective = LF_OBJECTIVE_TWO_STAGE};
  const auto most_frames = [&] {  // on one replica, of 79 in all
    const BalanceInput input = scenario_input(samples, named_cost("0.6B+8B"), scenario);
    const BalancePlan plan = make_policy("minimax").plan(input);
    const std::vector<double> vision = slot_seconds(input, 0, plan.assignments);
    double most = 0;
    for (int32_t r = 0; r < 4; ++r) most = std::max(most, vision[2 * r] + vision[2 * r + 1]);
    return most / named_cost("0.6B+8B").encode_frame(1024);
  };
  EXPECT_NEAR(most_frames(), 65, 1e-6);  // and a sample for the other micro-batch of its replica
  scenario.frames_are_atoms = true;
  EXPECT_NEAR(most_frames(), 20, 1e-6);
}

TEST(Policies, few_moves_leaves_most_samples_at_home) {
  const auto samples = synthetic_samples("D1", 32 * 4 * 40, 3);
  Scenario scenario{.replicas = 32, .micro_batches = 4, .cap = 1.2, .pack = 16384};
  const size_t n = samples_per_step(samples, named_cost("8B"), scenario);
  const BalanceInput input = scenario_input(std::span(samples).first(n), named_cost("8B"), scenario);
  const Outcome outcome = evaluate(make_policy("minimax", R"({"moves":"few"})"), input);
  EXPECT_LE(outcome.certificate.objective, 1.02 * outcome.certificate.lower_bound);
  EXPECT_LT(outcome.moved_tokens, outcome.tokens * 15 / 100);
  EXPECT_GT(outcome.moved_tokens, 0);
}

TEST(Policies, whole_packs_move_without_being_opened) {
  const auto samples = synthetic_samples("D5", 8 * 4 * 60, 3);
  Scenario scenario{.replicas = 8, .micro_batches = 4, .cap = 1, .objective = LF_OBJECTIVE_LOCKSTEP, .pack = 131072};
  const size_t n = samples_per_step(samples, named_cost("8B"), scenario);
  const BalanceInput input = scenario_input(std::span(samples).first(n), named_cost("8B"), scenario);
  const BalancePlan plan = make_policy("minimax", R"({"moves":"packs"})").plan(input);
  const BalancePart& part = input.parts.back();
  for (const auto& replica : plan.samples)
    for (const auto& micro_batch : replica)
      for (const uint32_t i : micro_batch) {
        EXPECT_EQ(part.arrival_replica[i], part.arrival_replica[micro_batch[0]]);
        EXPECT_EQ(part.arrival_micro_batch[i], part.arrival_micro_batch[micro_batch[0]]);
      }
  EXPECT_LT(plan.objective_seconds, make_policy("none").plan(input).objective_seconds * 0.8);
}

TEST(Policies, limits_that_no_plan_can_keep_are_one_clear_error) {
  // Three samples of 6 rows, two micro-batches of 10.
  BalanceInput input = plain_problem(2, 1, {1, 1, 1}, {6, 6, 6});
  input.parts[0].row_limit = 10;
  try {
    make_policy("minimax").plan(input);
    FAIL() << "a plan came out";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::kConfig);
    EXPECT_THAT(error.what(), HasSubstr("3 samples in 2 micro-batches, 18 under a limit of 10 each"));
  }
}

TEST(Policies, amounts_and_limits_that_cannot_be_added_up_are_refused_with_the_number_that_is_too_large) {
  const auto refusal_of = [](std::vector<int64_t> rows, int64_t limit) -> std::string {
    BalanceInput input = plain_problem(4, 1, std::vector<double>(rows.size(), 1.0), rows);
    input.parts[0].row_limit = limit;
    try {
      make_policy("minimax").plan(input);
    } catch (const Error& error) {
      return error.what();
    }
    return "a plan came out";
  };
  constexpr int64_t kHuge = int64_t{1} << 61;
  EXPECT_THAT(refusal_of({kHuge, kHuge, kHuge, kHuge, kHuge}, kHuge), HasSubstr("got 2305843009213693952 of atom 3"));
  EXPECT_THAT(refusal_of({kHuge, kHuge, kHuge}, kHuge + 1), HasSubstr("got 2305843009213693953 for 4 of them"));
  EXPECT_EQ(refusal_of({kHuge / 4, kHuge / 4, kHuge / 4, kHuge / 4}, kHuge / 2), "a plan came out");
}

}  // namespace
}  // namespace lf
