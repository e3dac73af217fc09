#include "weights/names.h"

#include <gtest/gtest.h>

namespace lf {
namespace {

TEST(Names, that_differ_only_in_numbers_become_one_line_with_ranges_and_a_count) {
  std::vector<std::string> names = {"embed.weight"};
  for (int layer = 0; layer < 28; ++layer) {
    for (int expert = 0; expert < 4; ++expert)
      names.push_back("layers." + std::to_string(layer) + ".experts." + std::to_string(expert) + ".w1");
  }
  names.push_back("conv1d.7");
  EXPECT_EQ(summarize_names(names),
            (std::vector<std::string>{"embed.weight", "layers.{0..27}.experts.{0..3}.w1 (112)", "conv1d.7"}));
}

TEST(Names, match_globs) {
  EXPECT_TRUE(matches_any({"x", "*.inv_freq"}, "model.layers.0.rotary.inv_freq"));
  EXPECT_FALSE(matches_any({"*.inv_freq"}, "model.inv_freq.weight"));
  EXPECT_FALSE(matches_any({}, "a"));
}

TEST(Names, a_likely_slip_is_found_and_an_unlikely_one_is_not) {
  EXPECT_EQ(nearest_name("lm_head.weigth", {"norm.weight", "lm_head.weight"}), "lm_head.weight");
  EXPECT_EQ(nearest_name("lm_head.weight", {"visual.blocks.0.mlp.up_proj.bias"}), "");
}

}  // namespace
}  // namespace lf
