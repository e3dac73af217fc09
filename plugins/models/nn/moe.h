// Mixture of experts: softmax router, top-k, gated feed-forward experts over sorted slices of rows.
//   p = softmax(x Wᵀ);  the k largest, divided by their sum or as they are, weigh  (silu(g) · u) D_e,  [g, u] = x G_e
//   (arXiv:2101.03961, transformers' Qwen3VLMoeTextSparseMoeBlock and Qwen3MoeTopKRouter). Dropless.
#pragma once

#include "nn/adapter.h"
#include "nn/attention.h"
#include "nn/parameter.h"
#include "nn/record.h"

namespace lf::nn {

struct Routing {
  at::Tensor probability;  // [N, E] f32 (f64), differentiable
  at::Tensor weight;       // [N, k] f32 (f64), differentiable
  at::Tensor expert;       // i64 [N, k]
};

struct TopRouting {
  int64_t top_k = 1;
  bool normalise = true;  // chosen probabilities are divided by their sum
};

// x [N, C], router [E, C]. Logits in f32 whatever x's dtype.
Routing route(const at::Tensor& x, const Parameter& router, const TopRouting& config);

// DeepSeek-V3's router (arXiv:2412.19437, equations 12 to 16; transformers' DeepseekV3TopkRouter): sigmoid scores; the
// experts are in `groups` of equal size, of which the `chosen_groups` with the largest sum of their two best scores
// compete; a bias decides who is chosen and never what they weigh.
struct GroupRouting {
  int64_t top_k = 1, groups = 1, chosen_groups = 1;
  bool normalise = true;  // chosen scores are divided by their sum
  double scale = 1;
};
// bias f32 [E], added to the scores for the choice. `probability` is each row's scores divided by their sum.
Routing route_in_groups(const at::Tensor& x, const Parameter& router, const at::Tensor& bias,
                        const GroupRouting& config);

// How many (row, k) pairs chose each expert, times E, minus rows · k: f32 [E], positive where an expert has more than
// its share. What the bias moves against, by a constant step (arXiv:2408.15664). Whole numbers.
at::Tensor excess_load(const Routing& routing);

// Published layout: x @ W. gate_up [E, C, 2I], down [E, I, C]; each may have an adapter (ExpertAdapter).
struct Experts {
  Parameter gate_up, down;

  // Whether gradients are to be made of what goes into a stack: of itself or its adapter.
  static bool keeps(const Parameter& stack) { return stack.trained() || adapters_trained(stack); }
  bool trained() const { return keeps(gate_up) || keeps(down); }
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
