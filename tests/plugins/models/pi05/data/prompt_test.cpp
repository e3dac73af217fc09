#include "pi05/data/prompt.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lf::robot {
namespace {

// numpy.digitize(x, numpy.linspace(-1, 1, 257)[:-1]) - 1, as it is defined: edges that are not above x, less one.
int64_t digitized(double value) {
  int64_t edges = 0;
  for (int k = 0; k < 256; ++k) edges += -1 + 2.0 * k / 256 <= value;
  return edges - 1;
}

TEST(StateBin, is_what_numpy_digitizes_at_and_around_every_edge) {
  for (int k = -3; k < 260; ++k) {
    const float edge = static_cast<float>(-1 + 2.0 * k / 256);
    for (const float value : {std::nextafter(edge, -9.0f), edge, std::nextafter(edge, 9.0f), edge + 0.003f})
      EXPECT_EQ(state_bin(value), digitized(value)) << value;
  }
}

TEST(StateBin, values_beyond_the_range_keep_the_bins_below_and_above) {
  EXPECT_EQ(state_bin(-1.0001f), -1);
  EXPECT_EQ(state_bin(-1e30f), -1);
  EXPECT_EQ(state_bin(1), 255);
  EXPECT_EQ(state_bin(1e30f), 255);
}

TEST(Prompt, has_the_state_in_bins_and_the_task_cleaned) {
  const std::vector<float> state = {-1, 0.5625f, -2};
  EXPECT_EQ(prompt_text(" pick_up\nthe block \n", state), "Task: pick up the block, State: 0 200 -1;\nAction: ");
}

TEST(Prompt, loses_the_white_space_around_the_task_that_python_strips) {
  EXPECT_EQ(prompt_text("\xE3\x80\x80\xC2\xA0\x1F lift\xC2\xA0it\xE2\x80\xA8\t"), "lift\xC2\xA0it\n");
  EXPECT_EQ(prompt_text(" \xC2\x85 "), "\n");
  EXPECT_EQ(prompt_text("\xE2\x80\x8B"
                        "lift"),
            "\xE2\x80\x8Blift\n");  // a joiner without width is none
}

TEST(Prompt, without_a_state_is_the_task_and_a_line_end) { EXPECT_EQ(prompt_text("lift_it "), "lift it\n"); }

}  // namespace
}  // namespace lf::robot
