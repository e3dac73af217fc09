// The two halves of a pre-norm transformer layer, as vision towers and decoders share them.
#pragma once

#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/moe.h"

namespace lf::nn {

struct SelfAttention {
  AttentionShape shape;
  Norm norm;
  Linear qkv;  // [(heads + 2 kv_heads) D, C]
  HeadNorms head_norms;
  Linear out;  // [C, heads D]
};

// x + out(attention(qkv(norm(x))))
inline at::Tensor self_attention(const at::Tensor& x, const SelfAttention& block, const RotaryTable& rotary,
                                 const Segments& segments) {
  const at::Tensor qkv = norm_linear(x, block.norm, block.qkv);
  return linear_add(attention(qkv, block.shape, block.head_norms, rotary, segments), block.out, x);
}

struct FeedForward {
  Activation activation = Activation::kGatedSilu;
  Norm norm;
  Linear up;    // [I, C]; gated: [2I, C], gate first
  Linear down;  // [C, I]
};

// x + down(activation(up(norm(x))))
inline at::Tensor feed_forward(const at::Tensor& x, const FeedForward& block) {
  return activate_linear(norm_linear(x, block.norm, block.up), block.activation, block.down, x);
}

struct SparseFeedForward {
  TopRouting routing;
  Norm norm;
  Parameter router;  // [E, C]
  Experts experts;
};

struct SparseResult {
  at::Tensor y;
  Routing routing;
};

// x + experts(norm(x)), and how rows were routed.
inline SparseResult sparse_feed_forward(const at::Tensor& x, const SparseFeedForward& block) {
  const at::Tensor h = norm(x, block.norm);
  const Routing routing = route(h, block.router, block.routing);
  return {experts(h, routing, block.experts, x), routing};
}

}  // namespace lf::nn
