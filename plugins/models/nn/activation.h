// Pointwise non-linearities of feed-forward blocks, and the map that follows them.
//   gated silu   silu(g) · u with [g, u] the two halves of the last axis   (arXiv:2002.05202)
//   gated gelu tanh   the same with gelu tanh for silu (Gemma)
//   quick gelu   x · sigmoid(1.702 x)                                      (CLIP)
//   silu         x · sigmoid(x)
//   gelu         x Φ(x), exact;   gelu tanh: its tanh form                 (arXiv:1606.08415)
#pragma once

#include "nn/linear.h"

namespace lf::nn {

enum class Activation { kGatedSilu, kQuickGelu, kGelu, kGeluTanh, kSilu, kGatedGeluTanh };

constexpr bool is_gated(Activation activation) {
  return activation == Activation::kGatedSilu || activation == Activation::kGatedGeluTanh;
}

// Width of what goes in, for `width` coming out.
constexpr int64_t input_width(Activation activation, int64_t width) { return is_gated(activation) ? 2 * width : width; }

// h [N, width in] -> [N, width]. Written to `into` where that is given: columns of wider rows, if need be. Without a
// graph.
at::Tensor activate(const at::Tensor& h, Activation activation, const at::Tensor& into = {});
struct ActivationBackward {
  at::Tensor dh;
  at::Tensor value;  // activate(h) again, in `into` where that is given
};
ActivationBackward activate_backward(const at::Tensor& dy, const at::Tensor& h, Activation activation,
                                     const at::Tensor& into = {});

// y = residual + activate(h) Wᵀ + b (no residual where undefined), keeping h: activate(h) is rebuilt in backward.
at::Tensor activate_linear(const at::Tensor& h, Activation activation, const Linear& linear,
                           const at::Tensor& residual = {});

}  // namespace lf::nn
