// Products counted by hand: of weights [in, out] 2 · rows · in · out, of attention by the sizes that meet.
#include <gtest/gtest.h>

#include "deepseek/processor/features.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::deepseek {
namespace {

using components::IndexerStage;
using components::LatentDecoderConfig;

LatentDecoderConfig small_decoder() {
  LatentDecoderConfig c;
  c.vocabulary = 160;
  c.width = 32;
  c.intermediate = 48;
  c.layers = 2;
  c.query_rank = 16;
  c.attention = {.heads = 4, .plain = 8, .rotated = 4, .value = 6, .latent = 12};
  c.experts = 8;
  c.expert_width = 12;
  c.shared_width = 20;
  c.sparse_layers = {false, true};
  c.routing.top_k = 2;
  c.mtp = c.trains_mtp = true;
  return c;
}

LatentDecoderConfig indexed(IndexerStage stage) {
  LatentDecoderConfig c = small_decoder();
  c.indexed = true;
  c.index.heads = 3;
  c.index.size = 8;
  c.stage = stage;
  c.mtp = c.trains_mtp = false;
  return c;
}

constexpr double kTokens = 10, kSeen = 55, kChosen = 40;
const std::vector<double> kAtom = {kTokens, 4, kSeen, kChosen, 3};

// Queries by their rank, latents and shared key, both halves of kv_b, out.
const double kMaps = 2 * kTokens * (32 * 16 + 16 * 4 * 12 + 32 * (12 + 4) + 12 * 4 * (8 + 6) + 4 * 6 * 32);
const double kDenseInner = 2 * kTokens * 3 * 32 * 48;
const double kExperts = 2 * kTokens * (32 * 8 + 3 * 32 * (2 * 12 + 20));
const double kDensePairs = 2 * kSeen * 4 * (12 + 6);

TEST(DeepseekCost, of_v3_adds_up_with_the_experts_that_a_token_meets) {
  const LatentDecoderConfig c = small_decoder();
  const auto expect = [&](uint32_t unit, double linear, double attention) {
    const lf_cost cost = cost_of(c, unit, kAtom, 2);
    EXPECT_DOUBLE_EQ(cost.forward_flops, linear + attention) << unit;
    EXPECT_DOUBLE_EQ(cost.weight_flops, linear) << unit;
    EXPECT_DOUBLE_EQ(cost.input_flops, linear + 2 * attention) << unit;
  };
  expect(0, 0, 0);
  expect(1, kMaps + kDenseInner, kDensePairs);
  expect(2, kMaps + kExperts, kDensePairs);
  expect(3, kMaps + kExperts + 2 * kTokens * 2 * 32 * 32, kDensePairs);  // the module: two rows into one, and a layer
  expect(4, 2 * (4.0 + 3) * 32 * 160, 0);                                // its rows see the vocabulary, too
  EXPECT_THROW(cost_of(c, 5, kAtom, 2), sdk::Failure);
}

// Pairs are between latents: keys of 12 + 4, values of 12 in each of 4 heads; the indexer scores all of them.
const double kIndexMaps = 2 * kTokens * (16 * 3 * 8 + 32 * 8 + 32 * 3), kIndexScores = 2 * kSeen * 3 * 8;

TEST(DeepseekCost, of_sparse_attention_counts_the_selected_pairs_and_all_that_the_indexer_scores) {
  const double attention = 2 * kChosen * 4 * (16 + 12);
  const lf_cost frozen = cost_of(indexed(IndexerStage::kFrozen), 1, kAtom, 2);
  EXPECT_DOUBLE_EQ(frozen.forward_flops, kMaps + kIndexMaps + kDenseInner + kIndexScores + attention);
  // Scores are made again, and each of the two products has two gradients.
  EXPECT_DOUBLE_EQ(frozen.input_flops, kMaps + kIndexMaps + kDenseInner + 3 * attention);
  const lf_cost learning = cost_of(indexed(IndexerStage::kSparse), 1, kAtom, 2);
  EXPECT_DOUBLE_EQ(learning.forward_flops, frozen.forward_flops);
  EXPECT_DOUBLE_EQ(learning.input_flops, frozen.input_flops + 3 * (2 * kChosen * 3 * 8));
}

TEST(DeepseekCost, of_the_warm_up_is_all_pairs_forward_and_nothing_backward) {
  const lf_cost cost = cost_of(indexed(IndexerStage::kWarmup), 1, kAtom, 2);
  EXPECT_DOUBLE_EQ(cost.forward_flops,
                   kMaps + kIndexMaps + kDenseInner + kIndexScores + 2 * kSeen * 4 * (16 + 12) + 3 * kIndexScores);
  EXPECT_EQ(cost.input_flops, 0);
  EXPECT_EQ(cost.weight_flops, 0);
}

TEST(DeepseekCost, features_count_pairs_as_looking_at_each_does) {
  family::Sequence sequence;
  sequence.ids.resize(9);
  sequence.labels = {1, -100, 1, 1, -100, 1, 1, -100, 1};
  double seen = 0, chosen = 0;
  for (int row = 0; row < 9; ++row) {
    seen += row + 1;
    chosen += std::min(row + 1, 4);
  }
  const std::vector<double> features = features_of(std::vector<family::Sequence>{sequence, sequence}, 4);
  EXPECT_EQ(features, (std::vector<double>{18, 10, 2 * seen, 2 * chosen, 10}));
}

}  // namespace
}  // namespace lf::deepseek
