// A model named from components: which tower, which projector, which decoder.
//
//   [model.options.vision]     type = "intern_vit" | "qwen2_vit" | "qwen2_5_vit" | "qwen3_vit", and the fields that the
//                              tower's own family has in vision_config
//   [model.options.projector]  merge, inner, norm: see ProjectorConfig
//   [model.options.decoder]    type = "llama" | "qwen2" | "qwen3" | "qwen3_moe", and the fields of that model's
//   config.json [model.options.tokens]     of Qwen's towers, where the tokenizer numbers them otherwise:
//   image_token_id, video_token_id,
//                              vision_start_token_id, vision_end_token_id
// The same tables, with "model_type": "compose", are the config.json that a trained model is saved with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "family/text_config.h"
#include "internvl/config.h"
#include "qwen_vl/config.h"

namespace lf::compose {

struct ProjectorConfig {
  int64_t inner = 0;                 // columns between its two maps; 0: as the tower's family has it
  std::optional<bool> norm_patches;  // "patch": the norm is over each patch; "block": over the merged ones together
};

struct ComposeConfig {
  std::string vision_type, decoder_type;
  ProjectorConfig projector;
  family::TextConfig text;
  bool tied = false;
  // The tower in the terms of its family, with this decoder's vocabulary and width; one of the two.
  std::optional<internvl::InternVlConfig> intern;
  std::optional<qwen_vl::QwenVlConfig> qwen;
  std::vector<std::string> unknown_keys;
};

// Mistakes name table and field. Throws sdk::Failure(LF_E_INVALID) where a table is not there.
ComposeConfig parse_config(const nlohmann::json& config, family::Findings& findings);

}  // namespace lf::compose
