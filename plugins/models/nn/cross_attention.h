// Rows of one kind that look at rows of another, sample by sample: softmax(q kᵀ / sqrt(D) + bias) v.
#pragma once

#include "nn/attention.h"

namespace lf::nn {

// queries [N, H · D]; keys [M, 2 · K · D]: keys, then values, of K key/value heads. Nothing is rotated. key_bias f32
// [M], undefined: 0; it is added to a key's scores: ln n makes the key n equal ones. Queries of segment s look at the
// keys of segment s, which has some where it has queries. -> [N, H · D].
at::Tensor cross_attention(const at::Tensor& queries, const at::Tensor& keys, const AttentionShape& shape,
                           const Segments& query_segments, const Segments& key_segments, const at::Tensor& key_bias);

}  // namespace lf::nn
