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

RobotOptions options_of(const json& options) {
  family::JsonFields fields(options, "model.options");
  return read_robot_options(fields, options);
}

std::string options_refused(const json& options) {
  return test::refusal([&] { options_of(options); });
}

TEST(RobotOptions, what_is_given_is_read_and_counts_as_read) {
  const json options = {{"cameras", {"a", "", "b"}},   {"optional_cameras", {"b"}}, {"state_in_prompt", false},
                        {"normalization", "mean_std"}, {"relative_actions", true},  {"relative_exclude", {"jaw"}},
                        {"max_prompt_tokens", 48},     {"expert", "someone else's"}};
  family::JsonFields fields(options, "model.options");
  const RobotOptions got = read_robot_options(fields, options);
  EXPECT_THAT(got.cameras, ElementsAre("a", "", "b"));
  EXPECT_THAT(got.optional_cameras, ElementsAre("b"));
  EXPECT_FALSE(got.state_in_prompt);
  EXPECT_EQ(got.normalization, Normalization::kMeanDeviation);
  EXPECT_THAT(got.relative_exclude, ElementsAre("jaw"));
  EXPECT_EQ(got.max_prompt_tokens, 48);
  EXPECT_THAT(fields.unread(), ElementsAre("model.options.expert"));
}

TEST(RobotOptions, what_makes_no_sense_is_refused_by_its_name) {
  EXPECT_THAT(options_refused({{"cameras", "top"}}),
              HasSubstr("invalid: model.options.cameras: expected a list of names"));
  EXPECT_THAT(options_refused({{"cameras", {"a", "a"}}}),
              HasSubstr("model.options.cameras: expected each feature once"));
  EXPECT_THAT(options_refused({{"optional_cameras", {"a"}}}), HasSubstr("expected names that `cameras` lists too"));
  EXPECT_THAT(options_refused({{"normalization", "minmax"}}),
              HasSubstr("expected \"quantiles\", \"mean_std\" or \"none\""));
  EXPECT_THAT(options_refused({{"normalization_floor", -1}}), HasSubstr("standard deviations from 0"));
  EXPECT_THAT(options_refused({{"relative_exclude", {"a"}}}), HasSubstr("expected relative_actions = true beside it"));
  EXPECT_THAT(options_refused({{"max_prompt_tokens", 0}}), HasSubstr("model.options.max_prompt_tokens"));
}

}  // namespace
}  // namespace lf::robot
