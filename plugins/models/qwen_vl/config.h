// A Qwen-VL model as its config.json says it, whichever generation wrote the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "family/text_config.h"

namespace lf::qwen_vl {

enum class Family { kQwen2Vl, kQwen2_5Vl, kQwen3Vl, kQwen3VlMoe };

constexpr bool is_qwen3(Family family) { return family == Family::kQwen3Vl || family == Family::kQwen3VlMoe; }

using family::TextConfig;

struct VisionConfig {
  int64_t depth = 0, hidden_size = 0, num_heads = 0, intermediate_size = 0, out_hidden_size = 0;
  int64_t in_channels = 3, patch_size = 0, temporal_patch_size = 2, spatial_merge_size = 2;
  double rope_theta = 10000, initializer_range = 0.02;

  // Qwen2.5-VL
  int64_t window_size = 0;  // pixels; 0: full attention everywhere
  std::vector<int64_t> fullatt_block_indexes;
  double tokens_per_second = 0;

  // Qwen3-VL
  int64_t num_position_embeddings = 0;  // a square number; 0: none
  std::vector<int64_t> deepstack_visual_indexes;

  int64_t patch_columns() const { return in_channels * temporal_patch_size * patch_size * patch_size; }
};

struct QwenVlConfig {
  Family family = Family::kQwen2Vl;
  TextConfig text;
  VisionConfig vision;
  int64_t image_token_id = 0, video_token_id = 0, vision_start_token_id = 0, vision_end_token_id = 0;
  bool tie_word_embeddings = false;
  // Keys that the file has and this code does not know; the caller says so once.
  std::vector<std::string> unknown_keys;
};

// Reads both layouts: transformers 5 (text_config, rope_parameters) and published checkpoints (flat text fields of
// Qwen2-VL, rope_theta + rope_scaling with "type" or "rope_type"). What may be left out has the reference's values
// (transformers 5.24, models/qwen*_vl*/configuration_*.py). Mistakes are what is wrong, sizes that are not stated
// (family/json_fields.h), and what would change the maths in a way that is not built: sliding windows, other rope
// types, other activations, attention bias or dropout, quantised weights. Throws sdk::Failure(LF_E_INVALID) for another
// model_type, after which nothing could be judged.
QwenVlConfig parse_config(std::string_view config_json, family::Findings& findings);
// Throws all mistakes as one sdk::Failure(LF_E_INVALID).
QwenVlConfig parse_config(std::string_view config_json);

}  // namespace lf::qwen_vl
