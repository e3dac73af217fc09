// Norms of whole queries and keys before they are cut into heads (InternViT-6B, arXiv:2302.05442). Norms of each head
// are HeadNorms of attention.h.
#pragma once

#include "nn/attention.h"

namespace lf::nn {

// qkv [N, shape.width()] by kind -> the same with its queries [N, heads * D] and keys [N, kv_heads * D] normalised,
// each over all its columns. Keeps qkv.
at::Tensor query_key_norm(const at::Tensor& qkv, const AttentionShape& shape, const Norm& query, const Norm& key);

}  // namespace lf::nn
