// Next-token cross entropy over a large vocabulary: only supervised rows are ever multiplied with the head, a chunk of
// rows at a time, and the full logits never exist.
//   loss = sum over rows i with targets[i] >= 0 of  w_i (logsumexp(l_i) - l_i[targets[i]]),   l = norm(x) Wᵀ
#pragma once

#include <optional>

#include "nn/norm.h"
#include "nn/parameter.h"
#include "nn/record.h"

namespace lf::nn {

constexpr int64_t kIgnoredTarget = -100;

struct TokenLossConfig {
  // What the gradient of `sum` will be, if known beforehand: then gradients are made while a chunk's logits are there,
  // and the parameters' gradients are added *in forward*. Otherwise backward multiplies with the head once more.
  std::optional<double> gradient_scale;
  int64_t chunk_bytes = int64_t{64} << 20;  // of logits held at a time
  at::Tensor weights = {};                  // f32 [N]: w; undefined: 1
};

struct TokenLoss {
  at::Tensor sum;     // f64 [], differentiable: a sum, never a mean
  int64_t count = 0;  // supervised rows
  double weight = 0;  // sum of their w
  at::Tensor rows;    // i64 [count]: the supervised rows
  at::Tensor each;    // f32 (f64) [count]: their losses, without w
};

// x [N, C]; head [V, C], with adapters or without; targets i64 [N], negative where not supervised. Logits, losses and
// their sum in f32 and above.
TokenLoss token_loss(const at::Tensor& x, const Norm& norm, const Parameter& head, const at::Tensor& targets,
                     const TokenLossConfig& config);

// All logits [N, V] in f32 (f64), without a graph: for those who ask for them.
at::Tensor all_logits(const at::Tensor& x, const Norm& norm, const Parameter& head);

}  // namespace lf::nn
