// Maps with low-rank adapters, each fused block against x (W + scale B A)ᵀ by LibTorch's own autograd.
#include "nn/adapter.h"

#include <gtest/gtest.h>

#include "nn/activation.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/moe.h"
#include "nn/token_loss.h"
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

// W with one adapter over all of it, A and B being p[1] and p[2].
Parameter with_adapter(const std::vector<Parameter>& p, double dropout = 0) {
  Parameter made = p[0];
  made.adapters =
      std::make_shared<Adapters>(Adapters{{{p[1], p[2], 0, kScale, dropout, 11}}, std::make_shared<Draws>(Draws{3})});
  return made;
}

TEST(Adapter, tables_with_adapters_equal_tables_of_merged_weights_with_every_gradient) {
  constexpr int64_t kVocabulary = 23;
  const at::Tensor ids = (at::arange(kRows) * 5).remainder(kVocabulary).to(at::kLong);
  const at::Tensor places = at::tensor({2, 3, 20}, at::kLong);
  check_all({{random({3, kIn}, 1)},
             {random({kVocabulary, kIn}, 2), random({kRank, kIn}, 3), random({kVocabulary, kRank}, 4)},
             [&](const Tensors& in, const auto& p) { return embed(ids, with_adapter(p), in[0], places, -1); },
             [&](const Tensors& in, const Tensors& p) {
               return (p[0] + kScale * at::mm(p[2], p[1])).index_select(0, ids).index_copy(0, places, in[0]);
             }},
            "table");
}

TEST(Adapter, the_padding_row_of_a_table_gives_gradient_to_a_alone) {
  std::vector<Parameter> p;
  for (const at::Tensor& t : {random({9, kIn}, 2), random({kRank, kIn}, 3), random({9, kRank}, 4)})
    p.push_back({t, at::zeros_like(t)});
  p[0].gradient.reset();
  const at::Tensor y = embed(at::tensor({4, 7, 4}, at::kLong), with_adapter(p), {}, {}, 7);
  torch::autograd::backward({y}, {at::ones_like(y)});
  EXPECT_EQ(p[2].gradient[7].abs().max().item<double>(), 0);
  EXPECT_GT(p[2].gradient[4].abs().max().item<double>(), 0);
  const at::Tensor sum = p[2].value[4] * 2 + p[2].value[7];  // as torch.nn.functional.embedding with padding_idx on Bᵀ
  EXPECT_LE(difference(p[1].gradient, kScale * sum.unsqueeze(1).expand({kRank, kIn})), 1e-12);
}

TEST(Adapter, heads_with_adapters_equal_heads_of_merged_weights_whatever_the_chunks) {
  constexpr int64_t kVocabulary = 45;
  const at::Tensor targets = (at::arange(kRows) * 7).remainder(kVocabulary).to(at::kLong);
  for (const int64_t bytes : {int64_t{1}, int64_t{1} << 20})
    check_all(
        {{random({kRows, kIn}, 1)},
         {random({kVocabulary, kIn}, 2, 0.5), random({kRank, kIn}, 3, 0.5), random({kVocabulary, kRank}, 4, 0.5)},
         [&](const Tensors& in, const auto& p) {
           const Norm norm{NormKind::kRms, 1e-6, {at::ones({kIn}, in[0].options().requires_grad(false)), {}}, {}};
           return token_loss(in[0], norm, with_adapter(p), targets, {.gradient_scale = {}, .chunk_bytes = bytes}).sum;
         },
         [&](const Tensors& in, const Tensors& p) {
           const at::Tensor y = in[0] * (in[0].square().mean(-1, true) + 1e-6).rsqrt();
           return at::cross_entropy_loss(at::linear(y, p[0] + kScale * at::mm(p[2], p[1])), targets, {},
                                         at::Reduction::Sum, -100);
         }},
        "head");
}

TEST(Adapter, a_head_drops_the_same_elements_whatever_the_chunks_and_whenever_gradients_are_made) {
  const at::Tensor targets = (at::arange(kRows) * 7).remainder(45).to(at::kLong), x = random({kRows, kIn}, 1);
  Tensors first;
  for (const int64_t bytes : {int64_t{1}, int64_t{1} << 20})
    for (const std::optional<double> ahead : {std::optional<double>{}, std::optional<double>{1.0}}) {
      std::vector<Parameter> p;
      for (const at::Tensor& t : {random({45, kIn}, 2), random({kRank, kIn}, 3), random({45, kRank}, 4)})
        p.push_back({t, at::zeros_like(t)});
      const at::Tensor in = x.clone().requires_grad_(true);
      const Norm norm{NormKind::kRms, 1e-6, {at::ones({kIn}, at::kDouble), {}}, {}};
      const at::Tensor loss =
          token_loss(in, norm, with_adapter(p, 0.5), targets, {.gradient_scale = ahead, .chunk_bytes = bytes}).sum;
      torch::autograd::backward({loss}, {at::scalar_tensor(1.0, at::kDouble)});
      const Tensors made = {loss.detach(), in.grad(), p[1].gradient, p[2].gradient};
      if (first.empty()) first = made;
      for (size_t i = 0; i < made.size(); ++i) EXPECT_LE(difference(made[i], first[i]), 1e-12) << i;
    }
}

TEST(Adapter, experts_with_adapters_equal_experts_of_merged_weights_with_every_gradient) {
  constexpr int64_t kExperts = 4, kInner = 10, kTop = 2;
  const at::Tensor chosen = at::stack({at::arange(kRows).remainder(3), at::arange(kRows).remainder(3) + 1}, 1);
  const at::Tensor weight = at::full({kRows, kTop}, 0.5, at::kDouble);
  // [E, in, out] of peft's A [E r, in] and B [out, r E].
  const auto delta = [](const at::Tensor& a, const at::Tensor& b) {
    return kScale *
           at::einsum("ore,eri->eio", {b.view({b.size(0), kRank, kExperts}), a.view({kExperts, kRank, a.size(1)})});
  };
  check_all(
      {{random({kRows, kIn}, 1, 0.5), random({kRows, kIn}, 2)},
       {random({kExperts, kIn, 2 * kInner}, 3, 0.5), random({kExperts * kRank, kIn}, 4, 0.3),
        random({2 * kInner, kRank * kExperts}, 5, 0.3), random({kExperts, kInner, kIn}, 6, 0.5),
        random({kExperts * kRank, kInner}, 7, 0.3), random({kIn, kRank * kExperts}, 8, 0.3)},
       [&](const Tensors& in, const auto& p) {
         const auto type = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
         const Routing routing{{}, weight.to(type), chosen};
         return experts(in[0], routing, {with_adapter({p[0], p[1], p[2]}), with_adapter({p[3], p[4], p[5]})}, in[1]);
       },
       [&](const Tensors& in, const Tensors& p) {
         const at::Tensor gate_up = p[0] + delta(p[1], p[2]), down = p[3] + delta(p[4], p[5]);
         at::Tensor y = in[1];
         for (int64_t k = 0; k < kTop; ++k) {
           const at::Tensor e = chosen.select(1, k);
           const at::Tensor h = at::bmm(in[0].unsqueeze(1), gate_up.index_select(0, e)).squeeze(1);
           const at::Tensor a = at::silu(h.narrow(1, 0, kInner)) * h.narrow(1, kInner, kInner);
           y = y + 0.5 * at::bmm(a.unsqueeze(1), down.index_select(0, e)).squeeze(1);
         }
         return y;
       }},
      "experts");
}

}  // namespace
}  // namespace lf::nn::test
