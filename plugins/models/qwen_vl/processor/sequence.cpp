#include "qwen_vl/processor/sequence.h"

#include <algorithm>

namespace lf::qwen_vl {

int64_t Sequence::supervised() const {
  if (labels.empty()) return 0;
  return std::count_if(labels.begin() + 1, labels.end(), [](int64_t label) { return label != kUnsupervised; });
}

void cut(Sequence& sequence, int64_t rows) {
  if (sequence.rows() <= rows) return;
  rows = std::max<int64_t>(rows, 0);
  for (const Rows& block : sequence.blocks)
    if (block.begin < rows && rows < block.end) rows = block.begin;
  const auto kept =
      std::count_if(sequence.blocks.begin(), sequence.blocks.end(), [&](const Rows& b) { return b.end <= rows; });
  sequence.blocks.resize(static_cast<size_t>(kept));
  sequence.vision.resize(static_cast<size_t>(kept));
  sequence.ids.resize(static_cast<size_t>(rows));
  sequence.labels.resize(static_cast<size_t>(rows));
  if (!sequence.source_rows.empty()) sequence.source_rows.resize(static_cast<size_t>(rows));
}

}  // namespace lf::qwen_vl
