// Sequences one after another, without padding: the columns that every family of language models has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "family/columns.h"
#include "family/sequence.h"

namespace lf::family {

// N rows of S sequences.
struct Packed {
  std::vector<int64_t> ids;          // [N]
  std::vector<int64_t> targets;      // [N] the id to be predicted at the row, within its own sequence; -100: none
  std::vector<int64_t> starts;       // [S + 1]
  std::vector<int64_t> source_rows;  // [N] -1 for rows of samples that were not tensors; empty where none was

  int64_t rows() const { return starts.back(); }
  // "input_ids", "targets", "segment_starts", and "source_row" where there are any. Empties this.
  void add_to(Columns& out);
};
Packed pack(std::span<const Sequence> sequences);

}  // namespace lf::family
