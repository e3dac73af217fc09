#include "family/sequence.h"

#include <algorithm>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

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

void cut_all(std::vector<Sequence>& sequences, int64_t rows) {
  if (rows <= 0) return;
  int64_t left = rows;
  for (size_t i = 0; i < sequences.size(); ++i) {
    cut(sequences[i], left);
    left -= sequences[i].rows();
    if (sequences[i].rows() == 0) sequences.resize(i);
  }
  if (sequences.empty())
    throw sdk::Failure(LF_E_DATA,
                       fmt::format("cut to {} rows nothing is left: the sample begins with a picture of more", rows));
}

}  // namespace lf::family
