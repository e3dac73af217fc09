// Products counted by hand: of weights [in, out] 2 · rows · in · out, of attention two of 2 · pairs · width.
#include "internvl/processor/cost.h"

#include <gtest/gtest.h>

namespace lf::internvl {
namespace {

// Tiles of 4 x 4 patches of 7 x 7 x 3, tower 8 wide and 16 between, 2 x 2 patches a token; decoder 32 wide, 48 between,
// 4 heads of 8, 2 of keys; 100 tokens.
InternVlConfig sizes() {
  InternVlConfig c;
  c.tile_size = 28;
  c.merge = 2;
  c.vision.patch_size = 7;
  c.vision.num_channels = 3;
  c.vision.hidden_size = 8;
  c.vision.intermediate_size = 16;
  c.vision.num_attention_heads = 2;
  c.vision.num_hidden_layers = 1;
  c.text.hidden_size = 32;
  c.text.intermediate_size = 48;
  c.text.num_hidden_layers = 1;
  c.text.num_attention_heads = 4;
  c.text.num_key_value_heads = 2;
  c.text.head_dim = 8;
  c.text.vocab_size = 100;
  return c;
}

family::Sequence two_tiles() {
  family::Sequence sequence;
  sequence.ids.resize(12);
  sequence.labels = {-100, -100, -100, -100, -100, -100, -100, -100, 1, 1, 1, 1};
  family::VisionInput input;
  input.groups = 2;
  input.height = input.width = 4;
  sequence.vision = {input};
  return sequence;
}

void expect_cost(const lf_cost& cost, double linear, double attention, bool input) {
  EXPECT_DOUBLE_EQ(cost.forward_flops, linear + attention);
  EXPECT_DOUBLE_EQ(cost.weight_flops, linear);
  EXPECT_DOUBLE_EQ(cost.input_flops, (input ? linear : 0) + 2 * attention);
}

TEST(InternVlCost, of_the_tower_adds_up_with_a_class_row_for_each_tile) {
  const InternVlConfig c = sizes();
  const family::Features features = features_of(std::vector<family::Sequence>{two_tiles()}, c, LossWeighting::kToken);
  EXPECT_EQ(features[0], (std::vector<double>{16, 17 * 17, 0, 16, 17 * 17, 0}));
  const double rows = 2 * 17;
  expect_cost(vision_cost(c, 0, features[0]), 2 * 32.0 * 147 * 8, 0, false);  // pixels have no gradient
  expect_cost(vision_cost(c, 1, features[0]), 2 * rows * (4 * 8 * 8 + 2 * 8 * 16), 2 * 2 * 2 * 17.0 * 17 * 8, true);
  expect_cost(vision_cost(c, 2, features[0]), 2 * 8.0 * (4 * 8 * 32 + 32 * 32), 0, true);
}

TEST(InternVlCost, of_the_decoder_adds_up_whatever_a_token_weighs) {
  const InternVlConfig c = sizes();
  for (const auto& [weighting, weight] :
       {std::pair{LossWeighting::kToken, 4.0}, {LossWeighting::kSample, 1.0}, {LossWeighting::kSquare, 2.0}}) {
    const family::Features features = features_of(std::vector<family::Sequence>{two_tiles()}, c, weighting);
    EXPECT_EQ(features[1], (std::vector<double>{12, weight, 12 * 13 / 2, 4}));
    expect_cost(language_cost(c, 0, features[1]), 0, 0, true);
    expect_cost(language_cost(c, 1, features[1]), 2 * 12.0 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48),
                2 * 2 * 78.0 * 32, true);
    expect_cost(language_cost(c, 2, features[1]), 2 * 4.0 * 32 * 100, 0, true);
  }
}

TEST(InternVlCost, of_a_sparse_layer_counts_the_experts_that_a_token_meets) {
  InternVlConfig c = sizes();
  const std::vector<double> atom{10, 0, 0, 0};
  const double dense = language_cost(c, 1, atom).forward_flops;
  c.text.num_experts = 8;
  c.text.num_experts_per_tok = 2;
  c.text.moe_intermediate_size = 24;
  EXPECT_DOUBLE_EQ(dense - language_cost(c, 1, atom).forward_flops, 2.0 * 10 * 32 * (3 * 48 - 2 * 3 * 24 - 8));
}

}  // namespace
}  // namespace lf::internvl
