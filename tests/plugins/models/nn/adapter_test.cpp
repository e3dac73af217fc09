// Maps with low-rank adapters, each fused block against x (W + scale B A)ᵀ by LibTorch's own autograd.
#include "nn/adapter.h"

#include <gtest/gtest.h>

#include "nn/activation.h"
#include "nn/linear.h"
#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

constexpr int64_t kRows = 37, kIn = 24, kRank = 3;
constexpr double kScale = 1.75;

// p: W [20, in], b [20], and A, B of columns [0, 8) and of columns [12, 20), as q and v of a fused map.
Linear adapted(const std::vector<Parameter>& p, double dropout = 0, uint64_t key = 0) {
  auto draws = std::make_shared<Draws>(Draws{key});
  Adapters adapters{{{p[2], p[3], 0, kScale, dropout, 11}, {p[4], p[5], 12, kScale, dropout, 12}}, draws};
  Linear linear{p[0], p[1]};
  linear.weight.adapters = std::make_shared<Adapters>(std::move(adapters));
  return linear;
}

at::Tensor merged(const Tensors& p) {
  at::Tensor delta = at::zeros_like(p[0]);
  delta = at::cat({at::mm(p[3], p[2]), at::zeros({4, kIn}, p[0].options()), at::mm(p[5], p[4])}, 0);
  return p[0] + kScale * delta;
}

Tensors parameters() {
  return {random({20, kIn}, 1),  random({20}, 2),         random({kRank, kIn}, 3),
          random({8, kRank}, 4), random({kRank, kIn}, 5), random({8, kRank}, 6)};
}

TEST(Adapter, maps_with_adapters_equal_maps_of_merged_weights_with_every_gradient) {
  const at::Tensor x = random({kRows, kIn}, 7), residual = random({kRows, 20}, 8);
  check_all({{x},
             parameters(),
             [](const Tensors& in, const auto& p) { return linear(in[0], adapted(p)); },
             [](const Tensors& in, const Tensors& p) { return at::linear(in[0], merged(p), p[1]); }},
            "linear");
  check_all({{x, residual},
             parameters(),
             [](const Tensors& in, const auto& p) { return linear_add(in[0], adapted(p), in[1]); },
             [](const Tensors& in, const Tensors& p) { return in[1] + at::linear(in[0], merged(p), p[1]); }},
            "linear_add");
  check_all({{x},
             parameters(),
             [](const Tensors& in, const auto& p) { return activate_linear(in[0], Activation::kGelu, adapted(p)); },
             [](const Tensors& in, const Tensors& p) { return at::linear(at::gelu(in[0]), merged(p), p[1]); }},
            "activate_linear");
  Tensors with_norm = parameters();
  with_norm.push_back(random({kIn}, 9));
  check_all({{x},
             with_norm,
             [](const Tensors& in, const auto& p) {
               return norm_linear(in[0], {NormKind::kRms, 1e-6, p[6], {}}, adapted(p));
             },
             [](const Tensors& in, const Tensors& p) {
               const at::Tensor y = in[0] * (in[0].square().mean(-1, true) + 1e-6).rsqrt() * p[6];
               return at::linear(y, merged(p), p[1]);
             }},
            "norm_linear");
}

TEST(Adapter, a_frozen_map_gets_no_gradient_and_its_adapters_do) {
  std::vector<Parameter> p;
  for (const at::Tensor& t : parameters()) p.push_back({t, at::zeros_like(t)});
  p[0].gradient.reset();
  p[1].gradient.reset();
  const at::Tensor x = random({kRows, kIn}, 7);  // nothing upstream is trained
  const at::Tensor y = linear(x, adapted(p));
  ASSERT_TRUE(y.requires_grad());
  torch::autograd::backward({y}, {at::ones_like(y)});
  const at::Tensor expected = kScale * at::mm(at::ones({kRows, 8}, at::kDouble).t(), at::mm(x, p[2].value.t()));
  EXPECT_LE(difference(p[3].gradient, expected), 1e-12);
}

TEST(Adapter, new_adapters_of_zero_b_change_no_bit_of_the_output) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    std::vector<Parameter> p;
    for (const at::Tensor& t : parameters()) p.push_back({t.to(type), {}});
    p[3].value.zero_();
    p[5].value.zero_();
    const at::Tensor x = random({kRows, kIn}, 7).to(type);
    EXPECT_LE(
        (linear(x, adapted(p)).to(at::kDouble) - linear(x, {p[0], p[1]}).to(at::kDouble)).abs().max().item<double>(),
        0.0);
  }
}

TEST(Adapter, dropout_keeps_its_share_and_scale_and_follows_the_key_alone) {
  const at::Tensor mask = dropout_mask(5, 400, 251, 0.3);
  EXPECT_NEAR((mask == 0).to(at::kDouble).mean().item<double>(), 0.3, 0.006) << "4 deviations of 100,400 draws";
  EXPECT_NEAR(mask.to(at::kDouble).mean().item<double>(), 1.0, 0.01);
  EXPECT_TRUE(at::equal(mask, dropout_mask(5, 400, 251, 0.3)));
  EXPECT_FALSE(at::equal(mask, dropout_mask(6, 400, 251, 0.3)));
  EXPECT_TRUE(at::equal(dropout_mask(5, 400, 251, 0), at::ones({400, 251})));
}

TEST(Adapter, gradients_with_dropout_are_those_of_the_mask_that_forward_drew) {
  constexpr double kDropout = 0.4;
  constexpr uint64_t kKey = 77;
  Tensors values = parameters();
  values[0].zero_();
  values[1].zero_();
  // With A and B of ones only on the diagonal the output shows scale · mask on ones.
  Tensors seeing = values;
  seeing[2] = seeing[4] = at::eye(kIn, at::kDouble);
  seeing[3] = seeing[5] = at::eye(8, kIn, at::TensorOptions(at::kDouble));
  std::vector<Parameter> eyes;
  for (const at::Tensor& t : seeing) eyes.push_back({t, {}});
  const at::Tensor shown = linear(at::ones({kRows, kIn}, at::kDouble), adapted(eyes, kDropout, kKey)) / kScale;
  const at::Tensor mask = shown.narrow(1, 0, 8);  // of the first adapter, its first 8 columns
  ASSERT_GT((mask == 0).sum().item<int64_t>(), 0);
  EXPECT_FALSE(at::equal(mask, shown.narrow(1, 12, 8))) << "each adapter draws for itself";

  std::vector<Parameter> p;
  for (const at::Tensor& t : values) p.push_back({t, at::zeros_like(t)});
  at::Tensor x = random({kRows, kIn}, 7);
  x.narrow(1, 8, kIn - 8).zero_();  // columns whose mask was not seen carry nothing
  x.requires_grad_(true);
  const at::Tensor y = linear(x, adapted(p, kDropout, kKey));
  const at::Tensor seed = at::cat({random({kRows, 8}, 9), at::zeros({kRows, 12}, at::kDouble)}, 1);
  torch::autograd::backward({y}, {seed});
  const at::Tensor a = values[2].narrow(1, 0, 8), own = seed.narrow(1, 0, 8), seen = x.detach().narrow(1, 0, 8) * mask;
  EXPECT_LE(difference(p[3].gradient, kScale * at::mm(own.t(), at::mm(seen, a.t()))), 1e-7);
  EXPECT_LE(difference(p[2].gradient.narrow(1, 0, 8), kScale * at::mm(at::mm(own, values[3]).t(), seen)), 1e-7);
  EXPECT_LE(difference(x.grad().narrow(1, 0, 8), kScale * at::mm(at::mm(own, values[3]), a) * mask), 1e-7);
}

}  // namespace
}  // namespace lf::nn::test
