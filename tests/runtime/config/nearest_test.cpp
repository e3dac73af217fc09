#include "config/nearest.h"

#include <string>

#include <gtest/gtest.h>

namespace lf {
namespace {

TEST(Nearest, distances_are_those_counted_by_hand) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("seed", "sede"), 1u);  // two neighbours swapped
  EXPECT_EQ(edit_distance("steps", "step"), 1u);
}

TEST(Nearest, the_closest_name_wins_and_a_far_one_is_not_offered) {
  const std::vector<std::string_view> known = {"data.max_tokens", "data.max_bad", "optimizer.learning_rate"};
  EXPECT_EQ(nearest("data.max_token", known), "data.max_tokens");
  EXPECT_EQ(nearest("train.learning_rate", known), "optimizer.learning_rate");
  EXPECT_EQ(nearest("data.zebra", known), std::nullopt);
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), known), std::nullopt);
}

}  // namespace
}  // namespace lf
