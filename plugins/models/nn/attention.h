// Attention within segments of packed rows: softmax(q kᵀ / sqrt(D)) v per segment, causal or full, with fewer key/value
// heads than query heads where the shape says so (arXiv:2305.13245).
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "nn/norm.h"
#include "nn/rotary.h"

namespace lf::nn {

// How a row of qkv is laid out: all query heads, then keys, then values; or (InternLM2's wqkv) for each key/value head
// its query heads, its key and its value.
enum class QkvLayout { kByKind, kByGroup };

struct AttentionShape {
  int64_t heads = 1, kv_heads = 1, head_size = 0;
  bool causal = false;
  QkvLayout layout = QkvLayout::kByKind;
  int64_t value_size = 0;  // 0: as head_size
  double scale = 0;        // of the scores; 0: 1 / sqrt(head_size)

  int64_t query_width() const { return heads * head_size; }
  int64_t value_width() const { return value_size > 0 ? value_size : head_size; }
  double score_scale() const { return scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(head_size)); }
  int64_t width() const { return (heads + 2 * kv_heads) * head_size; }  // of qkv rows
};

// Rows [starts[i], starts[i + 1]) attend to one another and to nothing else. On the host.
struct Segments {
  std::vector<int64_t> starts = {0};

  size_t count() const { return starts.size() - 1; }
  int64_t rows() const { return starts.back(); }
};

// Norms of each head's query and key before the rotation (Qwen3); weights undefined: none.
struct HeadNorms {
  Norm query, key;

  bool present() const { return query.weight.defined(); }
  bool trained() const { return query.trained() || key.trained(); }
};

// qkv [N, width()] as the shape lays it out; rotated here, or not where the table is undefined. -> [N, heads * D].
at::Tensor attention(const at::Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                     const RotaryTable& rotary, const Segments& segments);

}  // namespace lf::nn
