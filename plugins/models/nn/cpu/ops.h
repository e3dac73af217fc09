// The fused loops on tensors of host memory. Callers ask `fits` first and have a way without them for everything else.
#pragma once

#include <vector>

#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/heads.h"
#include "nn/norm.h"

namespace lf::nn::cpu {

// Contiguous f32 or bf16 rows in host memory.
bool fits(const at::Tensor& x);

at::Tensor normalize(const at::Tensor& x, const Norm& norm, NormStatistics* statistics, const at::Tensor& into);
at::Tensor normalize_backward(const at::Tensor& dy, const at::Tensor& x, const NormStatistics& statistics,
                              const Norm& norm, bool wants_input_gradient, const at::Tensor& into);

// dy = dout · gate, both [N, C]; returns dgate [C] in f32, the sum over rows of dout · y.
at::Tensor gate_backward(const at::Tensor& dout, const at::Tensor& y, const at::Tensor& gate, const at::Tensor& dy);

// Gated silu, gated gelu tanh, quick gelu, gelu tanh. `into`, where given, gets the value; it and dy may be columns of
// wider rows, unless the activation is gated.
at::Tensor activate(const at::Tensor& h, Activation activation, const at::Tensor& into);
ActivationBackward activate_backward(const at::Tensor& dy, const at::Tensor& h, Activation activation,
                                     const at::Tensor& into);

// Writes the stream's rows of `joint`.
void join_heads(const Stream& stream, const HeadsShape& shape, const PairRotary& rotary, const at::Tensor& joint);
// Gradient of stream.x; adds the norms' gradients.
at::Tensor join_heads_backward(const at::Tensor& djoint, const Stream& stream, const HeadsShape& shape,
                               const PairRotary& rotary);

// Rows of heads, each head's elements together; rows may be parts of wider rows. By group (QkvLayout), a key/value
// head's queries, key and value lie together, and the three begin at the first of each.
struct AttentionRows {
  at::Tensor query, key, value;  // [N, heads * D], [M, kv_heads * D], [M, kv_heads * value size]
};
struct AttentionForward {
  at::Tensor out;      // [N, heads * value size]
  at::Tensor log_sum;  // f32 [heads, N]
};
// How rows are rotated, and which belong together. Segment s of the queries sees segment s of the keys.
struct AttentionSide {
  const RotaryTable& rotary;
  const Segments& segments;
};
AttentionForward attention(const AttentionRows& rows, const AttentionShape& shape, const HeadNorms& norms,
                           const AttentionSide& queries, const AttentionSide& keys);
// Sets `gradients`, which have the strides of `rows`; adds the norms' gradients.
void attention_backward(const at::Tensor& dout, const AttentionRows& rows, const AttentionForward& forward,
                        const AttentionShape& shape, const HeadNorms& norms, const AttentionSide& queries,
                        const AttentionSide& keys, const AttentionRows& gradients);

// logits f32 [m, V] -> losses [m]. scale != 0: logits become the gradient of the losses' sum, weighted by `weights`
// (f32 [m], undefined: 1), times scale; in place or, where `rounded` (bf16 [m, V]) is given, there.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights, double scale,
                         const at::Tensor& rounded);

// table (f32) [V, C]: row ids[i] += rows[i], in the order of i; negative ids are skipped.
void add_rows(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& rows);

}  // namespace lf::nn::cpu
