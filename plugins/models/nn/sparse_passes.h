// What the two passes of sparse attention (sparse_attention.h) make, whoever runs them: cpu/sparse_ops.h on host
// memory, sparse_blocks.h anywhere.
#pragma once

#include "nn/sparse_attention.h"

namespace lf::nn {

// "wide" is f32, or f64 where the rows are f64.
struct SparseForward {
  at::Tensor out;         // [N, H W] in the query's dtype
  at::Tensor log_sum;     // the maker's own, for its backward; may be undefined
  at::Tensor selected;    // the maker's own, for its backward; undefined where every earlier row is selected
  at::Tensor divergence;  // wide [S]; undefined where not wanted
  at::Tensor dindex_query, dindex_key, dindex_weight;  // wide, of the divergence; undefined where not wanted
};

struct SparseGradients {
  at::Tensor query, latent, shared_key;             // in their dtypes; undefined without a gradient of the result
  at::Tensor kv_b;                                  // wide, as kv_b; undefined where not wanted
  at::Tensor index_query, index_key, index_weight;  // wide, of the divergence; undefined where not wanted
};

}  // namespace lf::nn
