#include "nn/moe.h"

#include <gtest/gtest.h>

#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

constexpr int64_t kExperts = 5, kTopK = 3, kWidth = 20, kInner = 14;

// Every expert on every row, weighed by a matrix that is 0 where the expert was not chosen.
at::Tensor reference_experts(const at::Tensor& x, const at::Tensor& router, const at::Tensor& gate_up,
                             const at::Tensor& down, const at::Tensor& residual, bool normalise) {
  const at::Tensor probability = at::matmul(x, router.t()).softmax(-1);
  const auto [top, index] = probability.topk(kTopK, -1);
  const at::Tensor weight = at::zeros_like(probability).scatter(1, index, normalise ? top / top.sum(-1, true) : top);
  at::Tensor sum = residual;
  for (int64_t e = 0; e < kExperts; ++e) {
    const auto halves = at::matmul(x, gate_up[e]).chunk(2, -1);
    sum = sum + weight.select(1, e).unsqueeze(1) * at::matmul(at::silu(halves[0]) * halves[1], down[e]);
  }
  return sum;
}

TEST(Experts, equal_a_loop_over_all_of_them) {
  for (const auto& [n, normalise] : {std::pair{40, true}, {1, true}, {0, true}, {40, false}, {1, false}}) {
    const Check what{{random({n, kWidth}, 1), random({n, kWidth}, 2)},
                     {random({kExperts, kWidth}, 3), random({kExperts, kWidth, 2 * kInner}, 4, 0.3),
                      random({kExperts, kInner, kWidth}, 5, 0.3)},
                     [normalise = normalise](const Tensors& in, const auto& p) {
                       return experts(in[0], route(in[0], p[0], {kTopK, normalise}), {p[1], p[2]}, in[1]);
                     },
                     [normalise = normalise](const Tensors& in, const Tensors& p) {
                       return reference_experts(in[0], p[0], p[1], p[2], in[1], normalise);
                     }};
    check_all(what, std::to_string(n) + (normalise ? " rows" : " rows, weighed as they are"));
  }
}

TEST(Experts, that_got_no_row_get_no_gradient) {
  const at::Tensor x = at::ones({6, kWidth}).requires_grad_(true);
  at::Tensor router = at::zeros({kExperts, kWidth});
  router[1].fill_(1);
  router[2].fill_(0.5);
  router[4].fill_(0.2);
  const Parameter gate_up{random({kExperts, kWidth, 2 * kInner}, 4).to(at::kFloat),
                          at::zeros({kExperts, kWidth, 2 * kInner})};
  const Parameter down{random({kExperts, kInner, kWidth}, 5).to(at::kFloat), at::zeros({kExperts, kInner, kWidth})};
  const at::Tensor y =
      experts(x, route(x, {router, at::zeros_like(router)}, {kTopK}), {gate_up, down}, at::zeros_like(x));
  torch::autograd::backward({y}, {at::ones_like(y)});
  for (int64_t e = 0; e < kExperts; ++e)
    EXPECT_EQ(gate_up.gradient[e].abs().sum().item<float>() > 0, e == 1 || e == 2 || e == 4) << e;
}

// transformers' load_balancing_loss_func, for one segment and two layers pooled.
TEST(BalanceLoss, equals_the_published_formula_with_its_gradient) {
  const Segments segments{{0, 9, 9, 14}};
  const at::Tensor a = random({14, kExperts}, 1).requires_grad_(true),
                   b = random({14, kExperts}, 2).requires_grad_(true);
  const auto statistics_of = [&](const at::Tensor& logits) {
    Routing routing;
    routing.probability = logits.softmax(-1);
    routing.expert = std::get<1>(routing.probability.topk(kTopK, -1));
    return routing_statistics(routing, segments);
  };
  const at::Tensor rows = at::tensor({18.0, 0.0, 10.0}, at::kDouble);
  const at::Tensor got = balance_loss(statistics_of(a) + statistics_of(b), rows);
  ASSERT_EQ(got.size(0), 3);
  EXPECT_EQ(got[1].item<double>(), 0);
  torch::autograd::backward({got[0] + 2 * got[2]});

  const at::Tensor c = a.detach().clone().requires_grad_(true), d = b.detach().clone().requires_grad_(true);
  const auto published = [&](int64_t begin, int64_t end) {
    at::Tensor counts = at::zeros({kExperts}, at::kDouble), sums = at::zeros({kExperts}, at::kDouble);
    for (const at::Tensor& logits : {c, d}) {
      const at::Tensor p = logits.slice(0, begin, end).softmax(-1);
      counts = counts + at::one_hot(std::get<1>(p.topk(kTopK, -1)), kExperts).sum(at::IntArrayRef({0, 1}));
      sums = sums + p.sum(0);
    }
    const double n = 2.0 * static_cast<double>(end - begin);
    return (counts / n * (sums / n)).sum() * kExperts;
  };
  const at::Tensor first = published(0, 9), last = published(9, 14);
  EXPECT_NEAR(got[0].item<double>(), first.item<double>(), 1e-12);
  EXPECT_NEAR(got[2].item<double>(), last.item<double>(), 1e-12);
  torch::autograd::backward({first + 2 * last});
  EXPECT_LE(difference(a.grad(), c.grad()), 1e-10);
  EXPECT_LE(difference(b.grad(), d.grad()), 1e-10);
}

}  // namespace
}  // namespace lf::nn::test
