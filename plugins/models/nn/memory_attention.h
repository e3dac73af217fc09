// Attention of rows to one another and to rows that were there before them and never look back: a prefix whose keys and
// values are kept (a cache, or the edge of another component).
#pragma once

#include "nn/attention.h"

namespace lf::nn {

// Segment by segment the memory's rows, then the own ones: together the joint rows. On the device of the rows.
struct MemoryLayout {
  Segments own, joint;
  at::Tensor memory_places, own_places;  // i64 [M], [N]: their rows among the joint ones
  RotaryTable own_rotary, joint_rotary;  // undefined: nothing is rotated
};
// memory_rows, own_rows: of each segment. Positions of joint rows count from 0 in each segment.
MemoryLayout memory_layout(const std::vector<int64_t>& memory_rows, const std::vector<int64_t>& own_rows,
                           const RotarySpec& rotary, at::Device device);

// qkv [N, shape.width()]: queries, keys, values, not rotated; memory [M, 2 · kv_heads · D]: keys, values, not rotated;
// undefined where M is 0. Each own row sees all joint rows of its segment. -> [N, heads · D]. One node on host memory.
at::Tensor memory_attention(const at::Tensor& qkv, const at::Tensor& memory, const AttentionShape& shape,
                            const MemoryLayout& layout);

}  // namespace lf::nn
