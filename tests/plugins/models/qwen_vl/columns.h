// A fixture case turned into the columns of a packed micro-batch, as the family's collate makes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugins/models/qwen_vl/safetensors_file.h"

namespace lf::test {

struct Columns {
  std::vector<int64_t> input_ids, targets, position_ids, segment_starts, visual_rows, grid_thw;
  std::vector<float> pixel_values;
  int64_t pixel_columns = 0;
  std::vector<int64_t> source_row;  // flat row of the case's [B, L] that each row came from

  int64_t rows() const { return static_cast<int64_t>(input_ids.size()); }
  bool has_vision() const { return !grid_thw.empty(); }
};

struct ColumnOptions {
  int64_t merge = 2;
  bool one_grid_per_frame = false;  // Qwen3-VL: each frame of a video stands by itself in the text
};

// Rows of a padded batch become segments without their padding; rows of a packed case (cu_seqlens) its sequences.
// which: the sequences to take, by number; empty: all.
Columns make_columns(const std::map<std::string, FileTensor>& inputs, const ColumnOptions& options,
                     const std::vector<size_t>& which = {});

// How many sequences the case has.
size_t sequence_count(const std::map<std::string, FileTensor>& inputs);

}  // namespace lf::test
