// What make_plan promises whatever the policy: a good plan comes out as lists of samples, a bad one is refused by name.
#include <functional>

#include <gmock/gmock.h>

#include "balance/balance.h"
#include "balance/validate.h"
#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Script = std::function<int32_t(const lf_balance_input&, lf_assignment*, lf_err*)>;

// A policy that answers what the test wants; the handle is the script.
const lf_balancer_api kScripted = {
    {sizeof(lf_balancer_api), LF_ABI_MAJOR, LF_ABI_MINOR},
    nullptr,
    nullptr,
    [](lf_balancer policy, const lf_balance_input* input, lf_assignment* out, lf_balance_report*,
       lf_err* err) -> int32_t { return (*reinterpret_cast<Script*>(policy))(*input, out, err); }};

BalancePlan plan_with(Script script, const BalanceInput& input) {
  return make_plan(&kScripted, reinterpret_cast<lf_balancer>(&script), "scripted", input);
}

Script answer(std::vector<lf_assignment> places) {
  return [places](const lf_balance_input&, lf_assignment* out, lf_err*) {
    std::copy(places.begin(), places.end(), out);
    return LF_OK;
  };
}

// Two replicas with one micro-batch each, four samples of 10 rows, two of them with images of 3 rows.
BalanceInput small_input() {
  BalanceInput input;
  input.replicas = 2;
  input.n_samples = 4;
  input.parts.resize(2);
  input.parts[0] = {"vision", true, 0, 0, {1, 1, 3}, {1, 1, 1}, {3, 3, 3}, {0, 0, 0}, {0, 0, 1}, {0, 0, 0}};
  input.parts[1] = {"language",       true,         20,           0,           {0, 1, 2, 3}, {2, 2, 2, 2},
                    {10, 10, 10, 10}, {0, 0, 0, 0}, {0, 0, 1, 1}, {0, 0, 0, 0}};
  return input;
}

const std::vector<lf_assignment> kGood = {{1, 0, 0, 0}, {1, 0, 1, 0}, {0, 0, 0, 0},  // vision: samples 1, 1, 3
                                          {0, 0, 1, 0}, {1, 0, 0, 0}, {1, 0, 1, 0}, {0, 0, 0, 0}};

template <typename Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error(Exit::kDone, "nothing was thrown");
}

std::string refusal(std::vector<lf_assignment> places, const BalanceInput& input = small_input()) {
  const Error error = error_of([&] { plan_with(answer(std::move(places)), input); });
  EXPECT_EQ(error.exit(), Exit::kConfig) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("balancer scripted"));
  return error.what();
}

TEST(MakePlan, a_good_plan_comes_out_as_samples_in_their_order) {
  const BalancePlan plan = plan_with(answer(kGood), small_input());
  ASSERT_EQ(plan.samples.size(), 2u);
  EXPECT_THAT(plan.samples[0], ElementsAre(ElementsAre(3, 0)));
  EXPECT_THAT(plan.samples[1], ElementsAre(ElementsAre(1, 2)));
}

TEST(MakePlan, the_hash_is_equal_for_equal_inputs_and_differs_when_the_plan_or_a_cost_differs) {
  const uint64_t hash = plan_with(answer(kGood), small_input()).hash;
  EXPECT_EQ(plan_with(answer(kGood), small_input()).hash, hash);
  auto swapped = kGood;
  std::swap(swapped[3].order, swapped[6].order);
  EXPECT_NE(plan_with(answer(swapped), small_input()).hash, hash);
  BalanceInput dearer = small_input();
  dearer.parts[1].seconds[0] += 1e-12;
  EXPECT_NE(plan_with(answer(kGood), dearer).hash, hash);
}

TEST(MakePlan, an_atom_left_out_is_refused) {
  auto places = kGood;
  places[5] = {-1, -1, -1, 0};
  EXPECT_THAT(refusal(places), HasSubstr("atom 2 of part language is at replica -1"));
}

TEST(MakePlan, a_place_out_of_range_is_refused) {
  auto places = kGood;
  places[4].micro_batch = 1;
  EXPECT_THAT(refusal(places), HasSubstr("expected a place among 2 x 1"));
}

TEST(MakePlan, two_atoms_at_one_place_are_refused) {
  auto places = kGood;
  places[5].order = 0;
  EXPECT_THAT(refusal(places), HasSubstr("expected each of 0 to 1 once"));
}

TEST(MakePlan, a_limit_broken_is_refused_with_both_numbers) {
  auto places = kGood;
  places[6] = {1, 0, 2, 0};
  places[2] = {1, 0, 2, 0};
  places[3].order = 0;
  const std::string text = refusal(places);
  EXPECT_THAT(text, HasSubstr("has 30 rows of part language"));
  EXPECT_THAT(text, HasSubstr("limit of 20"));
}

// What is counted in a comparison of policies may break limits, so that a policy's breaches can be shown.
TEST(MakePlan, a_simulation_lets_limits_break_and_refuses_what_cannot_be_counted) {
  auto crowded = kGood;  // all on replica 0: 40 rows above a limit of 20, and replica 1 empty
  int32_t order[2] = {0, 0};
  for (size_t i = 0; i < crowded.size(); ++i) crowded[i] = {0, 0, order[i >= 3]++, 0};
  EXPECT_NO_THROW(validate_places("scripted", small_input(), crowded));
  EXPECT_THAT(refusal(crowded), HasSubstr("limit of 20"));

  const auto uncountable = [](const std::vector<lf_assignment>& places) {
    const Error error = error_of([&] { validate_places("scripted", small_input(), places); });
    EXPECT_EQ(error.exit(), Exit::kConfig) << error.what();
    return std::string(error.what());
  };
  auto twice = kGood;
  twice[5].order = 0;
  EXPECT_THAT(uncountable(twice),
              HasSubstr("balancer scripted: the plan of step 1 is refused: atom 2 of part language"));
  auto apart = kGood;
  apart[2] = {1, 0, 2, 0};
  EXPECT_THAT(uncountable(apart), HasSubstr("apart from its sample 3"));
  auto nowhere = kGood;
  nowhere[0] = {2, 0, 0, 0};
  EXPECT_THAT(uncountable(nowhere), HasSubstr("expected a place among 2 x 1"));
}

TEST(MakePlan, bytes_are_limited_like_rows) {
  BalanceInput input = small_input();
  input.parts[1].byte_limit = 99;
  input.parts[1].bytes = {50, 50, 50, 49};
  EXPECT_THAT(refusal(kGood, input), HasSubstr("has 100 bytes of part language"));
}

TEST(MakePlan, a_tied_atom_apart_from_its_sample_is_refused_and_an_untied_one_is_not) {
  auto places = kGood;
  places[2] = {1, 0, 2, 0};
  EXPECT_THAT(refusal(places), HasSubstr("apart from its sample 3"));
  BalanceInput untied = small_input();
  untied.parts[0].tied = false;
  EXPECT_NO_THROW(plan_with(answer(places), untied));
}

TEST(MakePlan, an_empty_micro_batch_is_refused_where_there_are_enough_samples) {
  BalanceInput input = small_input();
  input.parts[1].row_limit = 0;
  std::vector<lf_assignment> all_on_one;
  for (int32_t i = 0; i < 3; ++i) all_on_one.push_back({0, 0, i, 0});
  for (int32_t i = 0; i < 4; ++i) all_on_one.push_back({0, 0, i, 0});
  EXPECT_THAT(refusal(all_on_one, input), HasSubstr("micro-batch 0 of replica 1 is empty"));
}

TEST(MakePlan, fewer_samples_than_micro_batches_may_leave_some_empty) {
  BalanceInput input = small_input();
  input.micro_batches = 4;
  EXPECT_NO_THROW(plan_with(answer(kGood), input));
}

TEST(MakePlan, a_sample_above_the_limit_is_bad_data_and_named) {
  BalanceInput input = small_input();
  input.parts[1].rows[2] = 100'000;
  const Error error = error_of([&] { plan_with(answer(kGood), input); });
  EXPECT_EQ(error.exit(), Exit::kBadData);
  EXPECT_THAT(error.what(), HasSubstr("sample 2 of the step has 100000 rows in part language, above the limit of 20"));
}

TEST(MakePlan, the_images_of_one_sample_are_summed_against_the_limit_where_they_are_tied) {
  BalanceInput input = small_input();
  input.parts[0].row_limit = 5;
  EXPECT_EQ(error_of([&] { plan_with(answer(kGood), input); }).exit(), Exit::kBadData);
  input.parts[0].tied = false;
  input.parts[0].row_limit = 6;
  EXPECT_NO_THROW(plan_with(answer(kGood), input));
}

TEST(MakePlan, costs_that_are_no_numbers_are_refused_before_any_policy_sees_them) {
  for (const double wrong : {std::nan(""), -1.0, HUGE_VAL}) {
    BalanceInput input = small_input();
    input.parts[1].seconds[1] = wrong;
    EXPECT_EQ(error_of([&] { plan_with(answer(kGood), input); }).exit(), Exit::kBug) << wrong;
  }
}

TEST(MakePlan, what_a_policy_reports_as_an_error_reaches_the_user_with_its_name) {
  const Script failing = [](const lf_balance_input&, lf_assignment*, lf_err* err) {
    sdk::set_error(err, LF_E_INVALID, "the moon is full");
    return LF_E_INVALID;
  };
  const Error error = error_of([&] { plan_with(failing, small_input()); });
  EXPECT_EQ(error.exit(), Exit::kConfig);
  EXPECT_STREQ(error.what(), "balancer scripted: step 1: the moon is full");
}

TEST(MakePlan, a_step_without_samples_has_an_empty_plan) {
  BalanceInput input;
  input.replicas = 3;
  input.micro_batches = 2;
  input.parts.resize(1);
  input.parts[0].name = "language";
  EXPECT_EQ(plan_with(answer({}), input).samples, std::vector(3, std::vector(2, std::vector<uint32_t>{})));
}

}  // namespace
}  // namespace lf
