// Sparse attention on tensors of host memory: one pass over the queries scores, selects, attends and learns. Queries
// are dealt to threads in parts of consecutive rows; what parts add to the same rows is added in the order of the
// parts, so the number of threads changes no bit.
//
// Memory beside inputs and results: selected rows, about a byte each; a copy of the latents and of the index keys in
// f32; for each thread a gradient of them, and a few hundred queries' worth of latents.
#pragma once

#include "nn/sparse_passes.h"

namespace lf::nn::cpu {

// kv_b [H (P + W), L]. gradients: also those of the divergence, for those who do not run back. log_sum is f32 [N, H],
// `selected` u8 [N, .], rows of the segment (row_gaps.h).
SparseForward sparse_attention(const SparseInputs& rows, const at::Tensor& kv_b, const LatentShape& shape,
                               const IndexShape& index, const Segments& segments, bool divergence, bool gradients);

// Attention's shares are made again, and the divergence's gradients from them. dout [N, H W]; undefined: only the
// divergence's. forward: log_sum and selected. The gradient of a query that was given up lies where the query was.
SparseGradients sparse_attention_backward(const at::Tensor& dout, const SparseInputs& rows, const at::Tensor& kv_b,
                                          const SparseForward& forward, const LatentShape& shape,
                                          const IndexShape& index, const Segments& segments, bool wants_kv_b,
                                          bool wants_index);

}  // namespace lf::nn::cpu
