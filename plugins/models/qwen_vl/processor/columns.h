// The columns of a micro-batch: all sequences one after another, without padding.
//
// N rows, S sequences, V vision tokens, P patches, n pictures and videos:
//   input_ids       i64 [N]
//   targets         i64 [N]      the id to be predicted at the row, within its own sequence; -100: none
//   position_ids    i64 [3, N]   time, height, width; [1, N], from 0, for a decoder of one position axis
//   segment_starts  i64 [S + 1]  first row of each sequence, and N
//   visual_rows     i64 [V]      rows that take the vision tower's rows, ascending: in the order of those
//   pixel_values    f32 [P, values of a patch]   in order of appearance
//   grid_thw        i64 [n, 3]   temporal groups, height, width in patches; a video is one row in every generation
//   source_row      i64 [N]      where a row of a sample made of tensors was; -1 for rows of other samples
// Without pictures the three in the middle are absent, without samples made of tensors the last.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "family/columns.h"
#include "family/sequence.h"
#include "qwen_vl/config.h"

namespace lf::qwen_vl {

using family::Columns;
using family::kUnsupervised;
using family::Sequence;
using family::VisionInput;

// Writes one input's patches. [the calling thread]
using RowWriter = std::function<void(const VisionInput& input, float* out)>;

// Throws LF_E_DATA where placeholders and inputs do not match.
Columns make_columns(std::span<const Sequence> sequences, const QwenVlConfig& config, const RowWriter& write_rows);

}  // namespace lf::qwen_vl
