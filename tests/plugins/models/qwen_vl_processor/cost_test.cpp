#include "qwen_vl/processor/cost.h"

#include <gtest/gtest.h>

#include "lf/plugin_sdk/guard.hpp"
#include "models.h"

namespace lf::qwen_vl {
namespace {

VisionInput input(bool video, int64_t groups, int64_t height, int64_t width) {
  VisionInput out;
  out.video = video;
  out.groups = groups;
  out.height = height;
  out.width = width;
  return out;
}

QwenVlConfig model(Family family) {
  QwenVlConfig config = test::small_model(family);
  config.text.hidden_size = 64;
  config.text.intermediate_size = 96;
  config.text.num_hidden_layers = 2;
  config.text.num_attention_heads = 4;
  config.text.num_key_value_heads = 2;
  config.text.head_dim = 16;
  config.text.vocab_size = 1000;
  config.vision.depth = 2;
  config.vision.hidden_size = 32;
  config.vision.intermediate_size = 40;
  config.vision.out_hidden_size = 64;
  if (family == Family::kQwen2_5Vl) {
    config.vision.window_size = 112;
    config.vision.fullatt_block_indexes = {1};
  }
  return config;
}

TEST(Cost, features_count_pairs_as_looking_at_each_pair_does) {
  const QwenVlConfig config = model(Family::kQwen2_5Vl);
  Sequence sequence;
  sequence.ids.resize(7);
  sequence.labels = {1, 1, -100, 1, -100, -100, 1};
  sequence.vision = {input(false, 1, 10, 22), input(true, 3, 4, 6)};
  const Features features = features_of(std::vector<Sequence>{sequence, sequence}, config);
  ASSERT_EQ(features.vision_atoms(), 8u);
  ASSERT_EQ(features.language_atoms(), 1u);
  EXPECT_EQ(features.language, (std::vector<double>{14, 6, 56}));

  // Each pair of patches of a frame, each in its window of 8 x 8 patches.
  double same_window = 0;
  for (int a = 0; a < 220; ++a)
    for (int b = 0; b < 220; ++b) same_window += a / 22 / 8 == b / 22 / 8 && a % 22 / 8 == b % 22 / 8;
  EXPECT_EQ(features.vision[0], 220);
  EXPECT_EQ(features.vision[1], 220 * 220);
  EXPECT_EQ(features.vision[2], same_window);
  EXPECT_EQ(features.vision[3], 24);
  EXPECT_EQ(features.vision[4], 24 * 24);
  EXPECT_EQ(features.vision[5], 24 * 24);
}

TEST(Cost, a_layers_products_add_up) {
  const QwenVlConfig config = model(Family::kQwen2_5Vl);
  const std::vector<double> tokens{10, 4, 55, 20, 5, 210};
  // q, k, v, o and three of the feed-forward; scores and their sum of values.
  const double linear = 2 * 30 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 96), attention = 2 * 2 * 265 * 64;
  const lf_cost layer = cost_of(config, 1, 1, tokens, 4);
  EXPECT_DOUBLE_EQ(layer.forward_flops, linear + attention);
  EXPECT_DOUBLE_EQ(layer.weight_flops, linear);
  EXPECT_DOUBLE_EQ(layer.input_flops, linear + 2 * attention);
  EXPECT_DOUBLE_EQ(cost_of(config, 1, 3, tokens, 4).forward_flops,
                   2.0 * 9 * 64 * 1000);  // only supervised rows see the vocabulary
  EXPECT_DOUBLE_EQ(cost_of(config, 1, 0, tokens, 4).forward_flops, 0);

  const std::vector<double> patches{64, 4096, 1000};
  const double tower = 2 * 64 * (4 * 32 * 32 + 3 * 32 * 40);
  EXPECT_DOUBLE_EQ(cost_of(config, 0, 1, patches, 4).forward_flops, tower + 4 * 1000 * 32);
  EXPECT_DOUBLE_EQ(cost_of(config, 0, 2, patches, 4).forward_flops, tower + 4 * 4096 * 32);
  EXPECT_DOUBLE_EQ(cost_of(config, 0, 0, patches, 4).input_flops, 0);  // pixels have no gradient
  EXPECT_DOUBLE_EQ(cost_of(config, 0, 3, patches, 4).forward_flops, 2.0 * 16 * 128 * (128 + 64));
}

TEST(Cost, a_sparse_layer_counts_the_experts_that_a_token_meets) {
  QwenVlConfig config = model(Family::kQwen3VlMoe);
  config.text.num_experts = 8;
  config.text.num_experts_per_tok = 2;
  config.text.moe_intermediate_size = 24;
  config.text.mlp_only_layers = {0};
  const std::vector<double> tokens{10, 0, 0};
  EXPECT_DOUBLE_EQ(cost_of(config, 1, 1, tokens, 2).forward_flops - cost_of(config, 1, 2, tokens, 2).forward_flops,
                   2.0 * 10 * 64 * (3 * 96 - 2 * 3 * 24 - 8));
}

TEST(Cost, costs_of_atoms_add) {
  const QwenVlConfig config = model(Family::kQwen3Vl);
  const std::vector<double> one{10, 4, 55}, other{20, 5, 210}, both{10, 4, 55, 20, 5, 210};
  for (uint32_t unit = 0; unit < 4; ++unit) {
    const lf_cost a = cost_of(config, 1, unit, one, 2), b = cost_of(config, 1, unit, other, 2),
                  c = cost_of(config, 1, unit, both, 2);
    EXPECT_DOUBLE_EQ(a.forward_flops + b.forward_flops, c.forward_flops);
    EXPECT_EQ(a.saved_bytes + b.saved_bytes, c.saved_bytes);
  }
}

TEST(Cost, a_unit_that_is_not_there_is_refused) {
  const QwenVlConfig config = model(Family::kQwen2Vl);
  const std::vector<double> three{1, 1, 1}, two{1, 1};
  EXPECT_THROW(cost_of(config, 0, 4, three, 4), sdk::Failure);
  EXPECT_THROW(cost_of(config, 2, 0, three, 4), sdk::Failure);
  EXPECT_THROW(cost_of(config, 0, 0, two, 4), sdk::Failure);
}

}  // namespace
}  // namespace lf::qwen_vl
