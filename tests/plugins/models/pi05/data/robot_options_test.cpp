#include "pi05/data/robot_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "refusal.h"

namespace lf::robot {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

RobotOptions options_of(const json& options, const ModelWays& model = {}) {
  family::JsonFields fields(options, "model.options");
  return read_robot_options(fields, options, model);
}

std::string options_refused(const json& options, const ModelWays& model = {}) {
  return test::refusal([&] { options_of(options, model); });
}

TEST(RobotOptions, what_is_given_is_read_and_counts_as_read) {
  const json options = {{"cameras", {"a", "", "b"}}, {"optional_cameras", {"b"}},
                        {"state_in_prompt", false},  {"normalization", "mean_std"},
                        {"relative_actions", true},  {"relative_exclude", {"jaw"}},
                        {"max_prompt_tokens", 48},   {"expert", "someone else's"},
                        {"resize", "openpi"},        {"augment", true},
                        {"loss_columns", "own"}};
  family::JsonFields fields(options, "model.options");
  const RobotOptions got = read_robot_options(fields, options, {});
  EXPECT_THAT(got.cameras, ElementsAre("a", "", "b"));
  EXPECT_THAT(got.optional_cameras, ElementsAre("b"));
  EXPECT_FALSE(got.state_in_prompt);
  EXPECT_EQ(got.state_normalization, Normalization::kMeanDeviation);
  EXPECT_EQ(got.action_normalization, Normalization::kMeanDeviation);
  EXPECT_EQ(got.resize, Resize::kSmooth);
  EXPECT_TRUE(got.augment);
  EXPECT_TRUE(got.own_columns_alone);
  EXPECT_THAT(got.relative_exclude, ElementsAre("jaw"));
  EXPECT_EQ(got.max_prompt_tokens, 48);
  EXPECT_EQ(test::refusal([&] { fields.refuse_unread("unknown"); }), "invalid: model.options.expert: unknown");
}

TEST(RobotOptions, what_makes_no_sense_is_refused_by_its_name) {
  EXPECT_THAT(options_refused({{"cameras", "top"}}),
              HasSubstr("invalid: model.options.cameras: expected a list of names"));
  EXPECT_THAT(options_refused({{"cameras", {"a", "a"}}}),
              HasSubstr("model.options.cameras: expected each feature once"));
  EXPECT_THAT(options_refused({{"optional_cameras", {"a"}}}), HasSubstr("expected names that `cameras` lists too"));
  EXPECT_THAT(options_refused({{"normalization", "minmax"}}),
              HasSubstr("expected \"quantiles\", \"quantiles_10\", \"min_max\", \"mean_std\" or \"none\", got"));
  EXPECT_THAT(options_refused({{"loss_columns", 3}}), HasSubstr("model.options.loss_columns"));
  EXPECT_THAT(options_refused({{"resize", "pillow"}}), HasSubstr("model.options.resize: expected \"lerobot\" or"));
  EXPECT_THAT(options_refused({{"normalization_floor", -1}}), HasSubstr("standard deviations from 0"));
  EXPECT_THAT(options_refused({{"relative_exclude", {"a"}}}), HasSubstr("expected relative_actions = true beside it"));
  EXPECT_THAT(options_refused({{"max_prompt_tokens", 0}}), HasSubstr("model.options.max_prompt_tokens"));
}

TEST(RobotOptions, what_the_models_config_says_need_not_be_repeated) {
  ModelWays model;
  model.state_normalization = Normalization::kMeanDeviation;
  model.action_normalization = Normalization::kRange;
  model.relative_actions = true;
  model.relative_exclude = {"jaw"};
  model.views = {"top"};
  model.action_names = {"a", "b"};
  for (const json& options : {json::object(), json{{"relative_actions", true}, {"relative_exclude", {"jaw"}}}}) {
    const RobotOptions got = options_of(options, model);
    EXPECT_EQ(got.state_normalization, Normalization::kMeanDeviation);
    EXPECT_EQ(got.action_normalization, Normalization::kRange);
    EXPECT_TRUE(got.relative_actions);
    EXPECT_THAT(got.relative_exclude, ElementsAre("jaw"));
    EXPECT_THAT(got.views, ElementsAre("top"));
    EXPECT_THAT(got.action_names, ElementsAre("a", "b"));
  }
}

TEST(RobotOptions, what_the_models_config_says_cannot_be_contradicted) {
  ModelWays model;
  model.state_normalization = Normalization::kQuantiles;
  model.action_normalization = Normalization::kMeanDeviation;
  model.relative_actions = false;
  EXPECT_THAT(
      options_refused({{"normalization", "quantiles"}}, model),
      HasSubstr("model.options.normalization: expected what the model's config.json says (normalization_mapping: "
                "quantiles for states, mean_std for actions): who opens what is trained follows that"));
  EXPECT_THAT(options_refused({{"relative_actions", true}}, model),
              HasSubstr("model.options.relative_actions: expected what the model's config.json says "
                        "(use_relative_actions: false)"));
  model.relative_actions = true;
  model.relative_exclude = {"jaw"};
  EXPECT_THAT(options_refused({{"relative_exclude", {"gripper"}}}, model),
              HasSubstr("(relative_exclude_joints: [\"jaw\"])"));
}

}  // namespace
}  // namespace lf::robot
