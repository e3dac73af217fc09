// Norms, linear maps, activations, embeddings: each fused block against its formula.
#include <gtest/gtest.h>

#include "nn/activation.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

constexpr double kEps = 1e-6;

at::Tensor reference_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}) {
  if (bias.defined()) return at::layer_norm(x, {x.size(-1)}, weight, bias, kEps);
  return x * (x.square().mean(-1, true) + kEps).rsqrt() * weight;
}

at::Tensor reference_activation(const at::Tensor& h, Activation activation) {
  switch (activation) {
    case Activation::kGatedSilu:
      return at::silu(h.chunk(2, -1)[0]) * h.chunk(2, -1)[1];
    case Activation::kQuickGelu:
      return h * at::sigmoid(1.702 * h);
    case Activation::kGelu:
      return at::gelu(h);
    case Activation::kGeluTanh:
      return at::gelu(h, "tanh");
    case Activation::kSilu:
      return at::silu(h);
    case Activation::kGatedGeluTanh:
      return at::gelu(h.chunk(2, -1)[0], "tanh") * h.chunk(2, -1)[1];
  }
  throw std::logic_error("unknown activation");
}

// Widths that are whole vectors, and that are not.
const int64_t kWidths[] = {64, 36, 7};
const int64_t kRows[] = {130, 1, 0};

TEST(Norm, equals_its_formula) {
  for (const int64_t width : kWidths)
    for (const int64_t rows : kRows) {
      const at::Tensor x = random({rows, width}, 1) + 3, weight = random({width}, 2), bias = random({width}, 3);
      check_all({{x},
                 {weight},
                 [](const Tensors& in, const auto& p) {
                   return norm(in[0], {NormKind::kRms, kEps, p[0], {}});
                 },
                 [](const Tensors& in, const Tensors& p) { return reference_norm(in[0], p[0]); }},
                "rms " + std::to_string(rows) + " x " + std::to_string(width));
      check_all({{x},
                 {weight, bias},
                 [](const Tensors& in, const auto& p) {
                   return norm(in[0], {NormKind::kLayer, kEps, p[0], p[1]});
                 },
                 [](const Tensors& in, const Tensors& p) { return reference_norm(in[0], p[0], p[1]); }},
                "layer " + std::to_string(rows) + " x " + std::to_string(width));
      check_all({{x},
                 {weight, bias},
                 [](const Tensors& in, const auto& p) {
                   return norm(in[0], {NormKind::kRms, kEps, p[0], p[1], /*offset=*/1});
                 },
                 [](const Tensors& in, const Tensors& p) { return reference_norm(in[0], p[0] + 1) + p[1]; }},
                "rms of 1 + weight, with a bias, " + std::to_string(rows) + " x " + std::to_string(width));
    }
}

TEST(Linear, equals_its_formula) {
  for (const int64_t rows : kRows) {
    const at::Tensor x = random({rows, 36}, 1), w = random({20, 36}, 2, 0.2), b = random({20}, 3);
    check_all({{x},
               {w, b},
               [](const Tensors& in, const auto& p) {
                 return linear(in[0], {p[0], p[1]});
               },
               [](const Tensors& in, const Tensors& p) { return at::linear(in[0], p[0], p[1]); }},
              "linear");
    check_all({{x, random({rows, 20}, 4)},
               {w, b},
               [](const Tensors& in, const auto& p) {
                 return linear_add(in[0], {p[0], p[1]}, in[1]);
               },
               [](const Tensors& in, const Tensors& p) { return in[1] + at::linear(in[0], p[0], p[1]); }},
              "linear_add");
  }
}

TEST(Linear, takes_a_patch_kernel_as_its_matrix) {
  check_all({{random({9, 24}, 1)},
             {random({20, 3, 2, 2, 2}, 2)},
             [](const Tensors& in, const auto& p) {
               return linear(in[0], {p[0], {}});
             },
             [](const Tensors& in, const Tensors& p) { return at::linear(in[0], p[0].flatten(1)); }},
            "patches");
}

TEST(NormLinear, equals_its_formula_also_with_rows_folded) {
  for (const int64_t fold : {1, 4})
    for (const int64_t rows : {128, 4, 0})
      check_all({{random({rows, 24}, 1)},
                 {random({24}, 2), random({24}, 3), random({10, 24 * fold}, 4, 0.2), random({10}, 5)},
                 [fold](const Tensors& in, const auto& p) {
                   return norm_linear(in[0], {NormKind::kLayer, kEps, p[0], p[1]}, {p[2], p[3]}, fold);
                 },
                 [fold](const Tensors& in, const Tensors& p) {
                   return at::linear(reference_norm(in[0], p[0], p[1]).view({-1, 24 * fold}), p[2], p[3]);
                 }},
                "fold " + std::to_string(fold));
}

TEST(ActivateLinear, equals_its_formula) {
  for (const auto activation : {Activation::kGatedSilu, Activation::kQuickGelu, Activation::kGelu,
                                Activation::kGeluTanh, Activation::kSilu, Activation::kGatedGeluTanh})
    for (const int64_t rows : kRows)
      check_all({{random({rows, input_width(activation, 36)}, 1, 2), random({rows, 12}, 2)},
                 {random({12, 36}, 3, 0.2), random({12}, 4)},
                 [=](const Tensors& in, const auto& p) {
                   return activate_linear(in[0], activation, {p[0], p[1]}, in[1]);
                 },
                 [=](const Tensors& in, const Tensors& p) {
                   return in[1] + at::linear(reference_activation(in[0], activation), p[0], p[1]);
                 }},
                "activation " + std::to_string(static_cast<int>(activation)));
}

TEST(Activation, stays_finite_for_extreme_inputs) {
  const at::Tensor extreme = at::tensor({-1e30, -200.0, -90.0, 0.0, 90.0, 200.0, 1e30}, at::kFloat).repeat({2, 10});
  for (const auto activation : {Activation::kGatedSilu, Activation::kQuickGelu}) {
    const auto back =
        activate_backward(at::ones({2, input_width(activation, 70) == 140 ? 35 : 70}), extreme, activation);
    EXPECT_FALSE(activate(extreme, activation).isnan().any().item<bool>());
    EXPECT_FALSE(back.dh.isnan().any().item<bool>());
  }
}

TEST(Embed, puts_rows_at_places_and_keeps_padding_out_of_the_gradient) {
  const at::Tensor ids = at::tensor({5, 0, 3, 3, 1, 5, 2}, at::kLong), places = at::tensor({1, 4}, at::kLong);
  check_all({{random({2, 36}, 1)},
             {random({7, 36}, 2)},
             [&](const Tensors& in, const auto& p) { return embed(ids, p[0], in[0], places, 2); },
             [&](const Tensors& in, const Tensors& p) {
               return at::embedding(p[0], ids, /*padding_idx=*/2).index_copy(0, places, in[0]);
             }},
            "embed");
}

TEST(AddRows, adds_and_gives_both_gradients) {
  const at::Tensor places = at::tensor({1, 4, 5}, at::kLong);
  check_all({{random({7, 20}, 1), random({3, 20}, 2)},
             {},
             [&](const Tensors& in, const auto&) { return add_rows(in[0], in[1], places); },
             [&](const Tensors& in, const Tensors&) { return at::index_add(in[0], 0, places, in[1]); }},
            "add_rows");
}

TEST(AddInterpolated, weighs_rows_of_the_table) {
  const at::Tensor taps = at::tensor({0, 1, 3, 2, 2, 2, 8, 1, 5, 5, 0, 4}, at::kLong).view({3, 4});
  const at::Tensor weights = random({3, 4}, 3).to(at::kFloat);
  check_all({{random({3, 20}, 1)},
             {random({9, 20}, 2)},
             [&](const Tensors& in, const auto& p) { return add_interpolated(in[0], p[0], taps, weights); },
             [&](const Tensors& in, const Tensors& p) {
               return in[0] + (at::embedding(p[0], taps) * weights.to(at::kDouble).unsqueeze(2)).sum(1);
             }},
            "add_interpolated");
}

TEST(Record, makes_no_node_where_nothing_is_trained) {
  const at::Tensor x = random({4, 8}, 1).to(at::kFloat);
  const Linear frozen{{random({8, 8}, 2).to(at::kFloat), {}}, {}};
  EXPECT_FALSE(linear(x, frozen).requires_grad());
  const at::Tensor upstream = x.clone().requires_grad_(true);
  EXPECT_TRUE(linear(upstream, frozen).requires_grad());
  at::NoGradGuard no_grad;
  EXPECT_FALSE(linear(upstream, frozen).requires_grad());
}

}  // namespace
}  // namespace lf::nn::test
