// DeepSeek sparse attention (DeepSeek-V3.2-Exp report, section 2): an indexer scores every earlier row of the segment,
// latent attention then sees the best top_k of them.
//
//   score(t, s) = sum over index heads j of  w[t, j] · max(q[t, j] · k[s], 0) / sqrt(D_I)
//   selected(t) = the top_k largest scores of s <= t; among equal ones the earlier row
//
// The indexer learns by the divergence of its softmax from attention's own distribution, over the selected rows:
//   KL(p || softmax(score)),  p = attention's probabilities summed over heads, divided by their sum (a constant here)
// No gradient goes from attention to the indexer, nor from the divergence to anything but the indexer.
//
// On host memory in f32 and bf16 one pass over the queries does all of it (cpu/sparse_ops.h): memory is linear in the
// length, and nothing of length x length exists. Elsewhere LibTorch's operators do the same for a block of queries at a
// time (sparse_blocks.h), in memory that is linear too.
#pragma once

#include "nn/latent_attention.h"
#include "nn/linear.h"

namespace lf::nn {

struct IndexShape {
  int64_t heads = 1, size = 0;
  int64_t top_k = 0;  // 0: every earlier row (the indexer's dense warm-up)
};

// Rows of all segments. Letters: latent_attention.h.
struct SparseInputs {
  at::Tensor query;       // [N, H (P + R)], rotated part last
  at::Tensor latent;      // [N, L]
  at::Tensor shared_key;  // [N, R], rotated
  // Of the indexer: gradients reach them from the divergence only.
  at::Tensor index_query;   // [N, H_I D_I]
  at::Tensor index_key;     // [N, D_I]
  at::Tensor index_weight;  // f32 (f64) [N, H_I]
  // The caller reads `query` no more: on host memory its gradient is then written over it, which spares the largest
  // tensor of backward. Backward may then run once.
  bool gives_query_up = false;
};

struct IndexedAttention {
  at::Tensor out;         // [N, H W]
  at::Tensor divergence;  // f32 (f64) [S], summed over a segment's rows; undefined where not wanted
};

// kv_b: [H (P + W), L], the map from latents to plain keys and values of every head. Keeps its inputs and the selected
// rows, about a byte each (elsewhere four). The divergence's gradients are made where attention runs back; where only
// the indexer learns, in forward, and then they are all that is kept.
IndexedAttention sparse_attention(const SparseInputs& rows, const Parameter& kv_b, const LatentShape& shape,
                                  const IndexShape& index, const Segments& segments, bool wants_divergence);

// What the indexer scores and selects in one segment, for those who ask: scores f32 (f64) [n, n], 0 for later rows;
// selected bool [n, n]. Materialises both.
struct Selection {
  at::Tensor scores, selected;
};
Selection select_rows(const at::Tensor& index_query, const at::Tensor& index_key, const at::Tensor& index_weight,
                      const IndexShape& index);

}  // namespace lf::nn
