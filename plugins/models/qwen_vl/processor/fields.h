// Samples given as tensors: parity cases, and data sets that were tokenised and patched elsewhere.
#pragma once

#include <span>
#include <vector>

#include "family/sequence.h"
#include "lf/plugin_api/tensor.h"
#include "qwen_vl/config.h"

namespace lf::qwen_vl {

using family::kUnsupervised;
using family::ReadyRows;
using family::Rows;
using family::Sequence;
using family::VisionInput;

// Names and layouts are those of transformers' models. T rows, B sequences:
//   input_ids                       i64 or i32 [B, T] or [T]
//   attention_mask                  [B, T]; rows with 0 are left out
//   labels                          [B, T], not shifted, -100: not learnt; without them nothing is
//   pixel_values, pixel_values_videos     f32 [patches, values of a patch]
//   image_grid_thw, video_grid_thw        [n, 3]
//   second_per_grid_ts              f32 [videos]; without it 1
//   cu_seqlens                      [S + 1]; B must be 1: the row holds S sequences one after another
//   images_per_sequence, videos_per_sequence   [S]: checked
// Position numbers are always computed here: position_ids, position_ids_transformers, text_position_ids and
// mm_token_type_ids are passed over. Any other name is refused.
//
// Sequences borrow the pixels. source_rows are flat indices into [B, T]. Throws sdk::Failure LF_E_DATA, naming the
// field.
std::vector<Sequence> read_fields(std::span<const lf_named_tensor> fields, const QwenVlConfig& config);

}  // namespace lf::qwen_vl
