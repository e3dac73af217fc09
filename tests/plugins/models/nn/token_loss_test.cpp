#include "nn/token_loss.h"

#include <gtest/gtest.h>

#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

constexpr double kEps = 1e-6;

at::Tensor reference_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& head,
                          const at::Tensor& targets) {
  const at::Tensor y = x * (x.square().mean(-1, true) + kEps).rsqrt() * weight;
  return at::cross_entropy_loss(at::matmul(y, head.t()), targets, {}, at::Reduction::Sum, -100);
}

at::Tensor some_targets(int64_t n, int64_t vocabulary) {
  at::Tensor targets = (at::arange(n) * 7).remainder(vocabulary).to(at::kLong);
  return targets.masked_fill(at::arange(n).remainder(3) == 0, -100);
}

TEST(TokenLoss, equals_cross_entropy_over_supervised_rows) {
  for (const int64_t n : {1, 50})
    for (const int64_t vocabulary : {200, 37}) {
      const at::Tensor targets = some_targets(n + 1, vocabulary).slice(0, 1);
      check_all({{random({n, 24}, 1)},
                 {random({24}, 2), random({vocabulary, 24}, 3, 0.5)},
                 [&](const Tensors& in, const auto& p) {
                   // 16 rows at a time, the least there is.
                   const TokenLoss loss = token_loss(in[0], {NormKind::kRms, kEps, p[0], {}}, p[1], targets,
                                                     {.gradient_scale = {}, .chunk_bytes = 1});
                   EXPECT_EQ(loss.count, (targets >= 0).sum().item<int64_t>());
                   return loss.sum;
                 },
                 [&](const Tensors& in, const Tensors& p) { return reference_loss(in[0], p[0], p[1], targets); }},
                "loss");
    }
}

TEST(TokenLoss, weighs_every_row_and_sums_the_weights_unrounded) {
  const int64_t n = 50, vocabulary = 37;
  const at::Tensor targets = some_targets(n, vocabulary), weights = random({n}, 7).abs().to(at::kFloat);
  for (const std::optional<double> ahead : {std::optional<double>{}, std::optional<double>{1.0}}) {
    const at::Tensor x = random({n, 24}, 1).requires_grad_(true), w = random({24}, 2),
                     h = random({vocabulary, 24}, 3, 0.5);
    const Norm norm{NormKind::kRms, kEps, {w, at::zeros_like(w)}, {}};
    const Parameter head{h, at::zeros_like(h)};
    const TokenLoss loss = token_loss(x, norm, head, targets,
                                      {.gradient_scale = ahead, .chunk_bytes = 1, .weights = weights.to(at::kDouble)});
    torch::autograd::backward({loss.sum}, {at::scalar_tensor(1.0, at::kDouble)});

    const at::Tensor x2 = x.detach().clone().requires_grad_(true), h2 = h.clone().requires_grad_(true);
    const at::Tensor y = x2 * (x2.square().mean(-1, true) + kEps).rsqrt() * w;
    const at::Tensor supervised = (targets >= 0).to(at::kDouble) * weights;
    const at::Tensor each = at::nll_loss(at::matmul(y, h2.t()).log_softmax(-1), targets, {}, at::Reduction::None);
    const at::Tensor expected = (each * supervised).sum();
    torch::autograd::backward({expected}, {at::scalar_tensor(1.0, at::kDouble)});
    EXPECT_NEAR(loss.sum.item<double>(), expected.item<double>(), 1e-9);
    EXPECT_NEAR(loss.weight, supervised.sum().item<double>(), 1e-9);
    EXPECT_LE(difference(x.grad(), x2.grad()), 1e-9);
    EXPECT_LE(difference(head.gradient, h2.grad()), 1e-9);
  }
}

TEST(TokenLoss, weighs_the_same_by_the_fused_loops) {
  const at::Tensor targets = some_targets(40, 90), weights = random({40}, 7).abs().to(at::kFloat);
  const at::Tensor x = random({40, 24}, 1).to(at::kFloat), w = random({24}, 2).to(at::kFloat);
  const at::Tensor h = random({90, 24}, 3, 0.5).to(at::kFloat);
  const auto gradient = [&](at::ScalarType type) {
    const at::Tensor in = x.to(type).requires_grad_(true);
    const Norm norm{NormKind::kRms, kEps, {w.to(type), {}}, {}};
    const TokenLoss loss =
        token_loss(in, norm, {h.to(type), {}}, targets, {.gradient_scale = 0.5, .chunk_bytes = 1, .weights = weights});
    torch::autograd::backward({loss.sum}, {at::scalar_tensor(0.5, at::kDouble)});
    return in.grad();
  };
  EXPECT_LE(difference(gradient(at::kFloat), gradient(at::kDouble)), 2e-5);
}

struct Gradients {
  at::Tensor x, norm, head;
};

Gradients run(std::optional<double> ahead, double scale, at::ScalarType type) {
  const at::Tensor x = random({40, 24}, 1).to(type).requires_grad_(true);
  const at::Tensor weight = random({24}, 2).to(type), head = random({90, 24}, 3, 0.5).to(type);
  const Norm norm{NormKind::kRms, kEps, {weight, at::zeros({24})}, {}};
  const Parameter table{head, at::zeros({90, 24})};
  const TokenLoss loss = token_loss(x, norm, table, some_targets(40, 90), {.gradient_scale = ahead, .chunk_bytes = 1});
  torch::autograd::backward({loss.sum}, {at::scalar_tensor(scale, at::kDouble)});
  return {x.grad(), norm.weight.gradient, table.gradient};
}

TEST(TokenLoss, gives_the_same_bits_with_gradients_made_ahead) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Gradients late = run({}, 0.3, type), ahead = run(0.3, 0.3, type);
    EXPECT_TRUE(late.x.equal(ahead.x));
    EXPECT_TRUE(late.norm.equal(ahead.norm));
    EXPECT_TRUE(late.head.equal(ahead.head));
  }
}

TEST(TokenLoss, refuses_another_scale_than_it_was_told) { EXPECT_THROW(run(0.3, 0.5, at::kFloat), c10::Error); }

TEST(TokenLoss, of_no_supervised_row_is_zero_with_zero_gradients) {
  const at::Tensor x = random({5, 24}, 1).to(at::kFloat).requires_grad_(true);
  const Norm norm{NormKind::kRms, kEps, {at::ones({24}), at::zeros({24})}, {}};
  const Parameter head{random({30, 24}, 3).to(at::kFloat), at::zeros({30, 24})};
  const TokenLoss loss =
      token_loss(x, norm, head, at::full({5}, -100, at::kLong), {.gradient_scale = 1.0, .chunk_bytes = 1});
  EXPECT_EQ(loss.sum.item<double>(), 0);
  torch::autograd::backward({loss.sum}, {at::scalar_tensor(1.0, at::kDouble)});
  EXPECT_EQ(x.grad().abs().sum().item<float>(), 0);
  EXPECT_EQ(head.gradient.abs().sum().item<float>(), 0);
}

TEST(TokenLoss, adds_no_gradient_to_a_frozen_head) {
  const at::Tensor x = random({40, 24}, 1).to(at::kFloat).requires_grad_(true);
  const Norm norm{NormKind::kRms, kEps, {at::ones({24}), {}}, {}};
  const Parameter head{random({90, 24}, 3, 0.5).to(at::kFloat), {}};
  const TokenLoss loss = token_loss(x, norm, head, some_targets(40, 90), {.gradient_scale = 1.0, .chunk_bytes = 1});
  torch::autograd::backward({loss.sum}, {at::scalar_tensor(1.0, at::kDouble)});
  EXPECT_GT(x.grad().abs().sum().item<float>(), 0);
}

TEST(TokenLoss, stays_finite_for_large_logits) {
  const at::Tensor x = random({8, 24}, 1).to(at::kFloat).requires_grad_(true);
  const Norm norm{NormKind::kRms, kEps, {at::full({24}, 100.0), {}}, {}};
  const Parameter head{random({90, 24}, 3, 10).to(at::kFloat), at::zeros({90, 24})};
  const TokenLoss loss = token_loss(x, norm, head, some_targets(8, 90), {.gradient_scale = 1.0, .chunk_bytes = 1});
  torch::autograd::backward({loss.sum}, {at::scalar_tensor(1.0, at::kDouble)});
  EXPECT_TRUE(loss.sum.isfinite().item<bool>());
  EXPECT_TRUE(head.gradient.isfinite().all().item<bool>());
}

}  // namespace
}  // namespace lf::nn::test
