// Sparse attention's two passes in LibTorch's operators, for every device and dtype: a block of queries at a time, each
// against the latents themselves, so that no plain key or value of a head is made:
//
//   q k[h] = (q_plain U_k[h]) c + q_rotated r,   out[h] = U_v[h] (sum over s of share[s] c[s])
//
// Memory beside inputs and results is a few tensors of kSparseBlockElements, and rows of the latents' width in f32; it
// grows linearly with the length. On cards the sums over queries of a row's gradient are index_add's: their bits may
// change from run to run unless LibTorch is asked for deterministic operators.
#pragma once

#include "nn/sparse_passes.h"

namespace lf::nn {

inline constexpr int64_t kSparseBlockElements = int64_t{1} << 25;

// kv_b [H (P + W), L]. gradients: also those of the divergence, for those who do not run back. block_rows: queries at a
// time; 0: as many as kSparseBlockElements have room for. `selected` is i32 [N, top_k], ascending rows of the segment,
// read for queries of blocks that see more rows than that.
SparseForward sparse_forward_in_blocks(const SparseInputs& rows, const at::Tensor& kv_b, const LatentShape& shape,
                                       const IndexShape& index, const Segments& segments, bool divergence,
                                       bool gradients, int64_t block_rows = 0);

// Makes shares and scores again from the inputs and forward.selected. dout [N, H W]; undefined: only the divergence's
// gradients. block_rows as in forward.
SparseGradients sparse_backward_in_blocks(const at::Tensor& dout, const SparseInputs& rows, const at::Tensor& kv_b,
                                          const SparseForward& forward, const LatentShape& shape,
                                          const IndexShape& index, const Segments& segments, bool wants_kv_b,
                                          bool wants_index, int64_t block_rows = 0);

}  // namespace lf::nn
