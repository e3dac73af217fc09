// Mixture of experts: softmax router, top-k, gated feed-forward experts over sorted slices of rows.
//   p = softmax(x Wᵀ);  the k largest, divided by their sum, weigh  (silu(g) · u) D_e  with [g, u] = x G_e
//   (arXiv:2101.03961, transformers' Qwen3VLMoeTextSparseMoeBlock). Dropless.
#pragma once

#include "nn/attention.h"
#include "nn/parameter.h"
#include "nn/record.h"

namespace lf::nn {

struct Routing {
  at::Tensor probability;  // [N, E] f32 (f64), differentiable
  at::Tensor weight;       // [N, k] f32 (f64), differentiable, rows sum to 1
  at::Tensor expert;       // i64 [N, k]
};

// x [N, C], router [E, C]. Logits in f32 whatever x's dtype.
Routing route(const at::Tensor& x, const Parameter& router, int64_t top_k);

// Published layout: x @ W. gate_up [E, C, 2I], down [E, I, C].
struct Experts {
  Parameter gate_up, down;

  bool trained() const { return gate_up.trained() || down.trained(); }
};

// residual + sum over k of weight[:, k] · expert_k(x), in expert order for each row. Keeps x and the experts' gate_up
// rows.
at::Tensor experts(const at::Tensor& x, const Routing& routing, const Experts& weights, const at::Tensor& residual);

// Per segment: how many of its (row, k) pairs chose each expert, then the sum of its rows' probabilities: [S, 2E] in
// probability's dtype. Differentiable through the probabilities.
at::Tensor routing_statistics(const Routing& routing, const Segments& segments);

// E · sum over e of (counts_e / rows) (probabilities_e / rows) for each row of statistics [S, 2E] summed over layers;
// rows f32 (f64) [S] = segment rows x layers. [S]; 0 where a segment has no rows. Counts carry no gradient. (Equations
// 4 to 6 of arXiv:2101.03961, pooled over layers as transformers' load_balancing_loss_func does.)
at::Tensor balance_loss(const at::Tensor& statistics, const at::Tensor& rows);

}  // namespace lf::nn
