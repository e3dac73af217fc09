// Layer scale, and norms of whole queries and keys.
#include <gtest/gtest.h>

#include "nn/embedding.h"
#include "nn/layer_scale.h"
#include "nn/query_key_norm.h"
#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

TEST(LayerScale, multiplies_columns_of_the_branch_and_leaves_the_residual) {
  check_all({{random({17, 12}, 1), random({17, 12}, 2)},
             {random({12}, 3)},
             [](const Tensors& in, const auto& p) { return scaled_add(in[0], p[0], in[1]); },
             [](const Tensors& in, const Tensors& p) { return in[1] + in[0] * p[0]; }},
            "layer scale");
}

TEST(QueryKeyNorm, is_over_all_heads_together_and_not_over_values) {
  constexpr double kEps = 1e-6;
  const AttentionShape shape{.heads = 4, .kv_heads = 2, .head_size = 6};
  const auto rms = [](const at::Tensor& x, const at::Tensor& w) {
    return x * (x.square().mean(-1, true) + kEps).rsqrt() * w;
  };
  check_all({{random({9, 48}, 1)},
             {random({24}, 2) + 1, random({12}, 3) + 1},
             [&](const Tensors& in, const auto& p) {
               return query_key_norm(in[0], shape, {NormKind::kRms, kEps, p[0], {}}, {NormKind::kRms, kEps, p[1], {}});
             },
             [&](const Tensors& in, const Tensors& p) {
               return at::cat(
                   {rms(in[0].narrow(1, 0, 24), p[0]), rms(in[0].narrow(1, 24, 12), p[1]), in[0].narrow(1, 36, 12)}, 1);
             }},
            "query and key norm");
}

TEST(SelectRows, gives_gradients_to_the_rows_that_it_took) {
  const at::Tensor places = at::tensor(std::vector<int64_t>{1, 2, 5}, at::kLong);
  check_all({{random({7, 4}, 1)},
             {},
             [&](const Tensors& in, const auto&) { return select_rows(in[0], places); },
             [&](const Tensors& in, const Tensors&) { return in[0].index_select(0, places); }},
            "select rows");
}

}  // namespace
}  // namespace lf::nn::test
