// Where vision tokens stand in a sequence, and the three position numbers of every row. Pure.
//
// Sources: arXiv:2409.12191 (M-RoPE), arXiv:2502.13923 (time in seconds), transformers 4.57 get_rope_index: text goes
// on after the largest coordinate of the block before it. transformers 5.3 to 5.24 go on after max(height, width)
// instead, so that text overlaps a long video's coordinates; that is not followed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "family/sequence.h"
#include "qwen_vl/config.h"

namespace lf::qwen_vl {

using family::Sequence;
using family::VisionInput;

// Rows of one picture, one video, or (Qwen3-VL) one temporal group of a video, in merged patches.
struct VisualRun {
  int64_t begin = 0;
  int64_t groups = 1, height = 0, width = 0;
  float time_step = 1;  // between groups
  int64_t rows() const { return groups * height * width; }
  int64_t end() const { return begin + rows(); }
};

// The runs of placeholder tokens among `ids`, one after another for `vision`. Throws sdk::Failure LF_E_DATA where they
// do not match, with the row, what was expected and what came.
std::vector<VisualRun> visual_runs(std::span<const int64_t> ids, std::span<const VisionInput> vision,
                                   const QwenVlConfig& config);

// Writes the position numbers of a sequence of `rows` rows: out[axis * stride + row], axes time, height, width.
void write_positions(int64_t rows, std::span<const VisualRun> runs, int64_t* out, int64_t stride);

}  // namespace lf::qwen_vl
