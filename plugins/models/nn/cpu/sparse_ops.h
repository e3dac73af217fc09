// Sparse attention on tensors of host memory: one pass over the queries scores, selects, attends and learns. Queries
// are dealt to threads in parts of consecutive rows; what parts add to the same rows is added in the order of the
// parts, so the number of threads changes no bit.
//
// Memory beside inputs and results: selected rows, i32 [N, top_k]; a copy of the latents and of the index keys in f32;
// for each thread a gradient of them, and a few hundred queries' worth of latents.
#pragma once

#include "nn/sparse_attention.h"

namespace lf::nn::cpu {

struct SparseForward {
  at::Tensor out;         // [N, H W] in the query's dtype
  at::Tensor log_sum;     // f32 [N, H]
  at::Tensor selected;    // i32 [N, top_k], rows of the segment, ascending, -1 past the last; undefined with top_k 0
  at::Tensor divergence;  // f32 [S]; undefined where not wanted
  at::Tensor dindex_query, dindex_key, dindex_weight;  // f32, of the divergence; undefined where not wanted
};

// kv_b [H (P + W), L]. gradients: also those of the divergence.
SparseForward sparse_attention(const SparseInputs& rows, const at::Tensor& kv_b, const LatentShape& shape,
                               const IndexShape& index, const Segments& segments, bool divergence, bool gradients);

struct SparseGradients {
  at::Tensor query, latent, shared_key;  // in their dtypes
  at::Tensor kv_b;                       // f32, as kv_b; undefined where not wanted
};
SparseGradients sparse_attention_backward(const at::Tensor& dout, const SparseInputs& rows, const at::Tensor& kv_b,
                                          const SparseForward& forward, const LatentShape& shape,
                                          const Segments& segments, bool wants_kv_b);

}  // namespace lf::nn::cpu
