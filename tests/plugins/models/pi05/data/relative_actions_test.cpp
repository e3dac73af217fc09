#include "pi05/data/relative_actions.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refusal.h"

namespace lf::robot {
namespace {

using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

Feature vector_of(const std::string& name, std::vector<std::string> names) {
  const auto width = static_cast<int64_t>(names.size());
  return {name, "float32", {width}, std::move(names)};
}

const Feature kState = vector_of("observation.state", {"base", "elbow.pos", "Gripper.pos", "shoulder.pos"});

TEST(RelativeActions, are_matched_by_name_where_the_state_has_another_order_and_more_numbers) {
  const Feature action = vector_of("action", {"shoulder.pos", "elbow.pos", "left_GRIPPER.pos"});
  const auto places = relative_places(action, kState, {"gripper"}, "info.json");
  EXPECT_THAT(places, ElementsAre(3, 1, -1));
  std::vector<float> actions = {10, 20, 30, 11, 21, 31};
  make_relative(actions, std::vector<float>{1, 2, 3, 4}, places);
  EXPECT_THAT(actions, ElementsAre(6, 18, 30, 7, 19, 31));
}

TEST(RelativeActions, a_name_that_the_state_lacks_is_refused_unless_it_is_excluded) {
  const Feature action = vector_of("action", {"wrist.pos", "elbow.pos"});
  EXPECT_THAT(
      refusal([&] { relative_places(action, kState, {"gripper"}, "info.json: features"); }),
      HasSubstr("invalid: info.json: features.action: relative_actions: the state has no \"wrist.pos\", but base, "
                "elbow.pos, Gripper.pos, shoulder.pos; name it in model.options.relative_exclude"));
  EXPECT_THAT(relative_places(action, kState, {"wrist.pos"}, ""), ElementsAre(-1, 1));
}

TEST(RelativeActions, need_names) {
  const Feature nameless{"action", "float32", {2}, {}};
  EXPECT_THAT(refusal([&] { relative_places(nameless, kState, {}, "info.json: features"); }),
              HasSubstr("info.json: features.action: relative_actions needs a name for each of 2 numbers, got 0"));
}

TEST(RelativeStatistics, are_those_of_all_whole_chunks) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(5, 2);
  std::vector<float> actions(2 * 30), states(30), others(2 * 4), other_states(4);
  for (auto* values : {&actions, &states, &others, &other_states})
    for (float& value : *values) value = normal(random);
  const EpisodeValues episodes[] = {{actions, states}, {others, other_states}};  // the second is shorter than a chunk
  const int64_t horizon = 6, places[] = {0, -1};
  const Statistics got = relative_statistics(episodes, places, 1, horizon, {0.01, 0.99});

  for (size_t column = 0; column < 2; ++column) {
    std::vector<double> values;
    for (size_t begin = 0; begin + 6 <= 30; ++begin)
      for (size_t t = begin; t < begin + 6; ++t)
        values.push_back(static_cast<double>(actions[2 * t + column]) - (column == 0 ? states[begin] : 0));
    std::sort(values.begin(), values.end());
    const auto n = static_cast<double>(values.size());
    double mean = 0, squares = 0;
    for (const double value : values) mean += value / n;
    for (const double value : values) squares += (value - mean) * (value - mean) / n;
    EXPECT_NEAR(got.mean[column], mean, 1e-4);
    EXPECT_NEAR(got.deviation[column], std::sqrt(squares), 1e-4);
    for (const auto& [share, quantile] : {std::pair(0.01, got.low[column]), {0.99, got.high[column]}}) {
      const double at = share * (n - 1);
      const auto low = static_cast<size_t>(at);
      EXPECT_NEAR(quantile, values[low] + (at - static_cast<double>(low)) * (values[low + 1] - values[low]), 1e-4);
    }
  }
}

TEST(RelativeStatistics, of_episodes_shorter_than_a_chunk_are_those_of_what_there_is) {
  const std::vector<float> actions = {3, 5}, states = {1, 1};
  const EpisodeValues episodes[] = {{actions, states}};
  const int64_t places[] = {0};
  EXPECT_FLOAT_EQ(relative_statistics(episodes, places, 1, 50, {0.01, 0.99}).mean[0], (2 + 4 + 4) / 3.0f);
}

}  // namespace
}  // namespace lf::robot
