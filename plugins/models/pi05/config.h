// PI0.5 as its config.json says it: lerobot's PI05Config, whose sizes are two names, or the sizes one by one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pi05/data/robot_options.h"

namespace lf::pi05 {

// One of the two decoders; they have the same depth and heads.
struct DecoderSizes {
  int64_t width = 0, inner = 0;
};

struct Pi05Config {
  DecoderSizes vlm{2048, 16384}, expert{1024, 4096};
  int64_t layers = 18, heads = 8, kv_heads = 1, head_size = 256, vocabulary = 257152;
  double rope_theta = 10000, norm_eps = 1e-6;

  int64_t vision_width = 1152, vision_inner = 4304, vision_layers = 27, vision_heads = 16;
  int64_t image_size = 224, patch = 14;
  double vision_eps = 1e-6;
  int64_t views = 3;  // cameras that the model was made for

  int64_t horizon = 50, action_columns = 32;
  int64_t action_dim = 32;  // columns that count in the loss where a sample does not say
  int64_t max_prompt_tokens = 200;

  double min_period = 4e-3, max_period = 4;
  double time_alpha = 1.5, time_beta = 1, time_scale = 0.999, time_offset = 0.001;

  robot::ModelWays ways;  // what the file says of how data is prepared
  // What lerobot freezes; such parameters get no gradient whatever the job says.
  bool tower_frozen = false, prefix_frozen = false;

  // What the file says and has no effect here; the caller says so once.
  std::vector<std::string> remarks;

  int64_t image_rows() const { return (image_size / patch) * (image_size / patch); }
  int64_t patch_columns() const { return 3 * patch * patch; }
};

// What may be left out has lerobot 0.6.1's values (policies/pi05/{configuration,modeling}_pi05.py). Sizes must be
// stated, one by one or by lerobot's names for them, paligemma_variant (of the tower and the prefix) and
// action_expert_variant. Mistakes are what is wrong, sizes that are not stated, what would change the maths in a way
// that is not built, and fields that nobody knows and that are set to something. Cameras count in the text's order.
// Throws sdk::Failure(LF_E_INVALID) for another type, after which nothing could be judged.
Pi05Config parse_config(std::string_view config_json, family::Findings& findings);
// Throws all mistakes as one sdk::Failure(LF_E_INVALID).
Pi05Config parse_config(std::string_view config_json);

// How a checkpoint calls its tensors. lerobot writes "model." before every name (openpi's conversion does not), and
// transformers has had the tower with and without "vision_model."; the table of tokens, tied to the head, goes by
// either name. What lerobot 0.6.1 itself saves has both: its class unties them, and the head is no longer used.
struct Naming {
  std::string outer;                                 // "" or "model."
  std::string tower = "vision_tower.vision_model.";  // or "vision_tower."
  std::string table = "lm_head.weight";              // or "model.language_model.embed_tokens.weight"
  bool spare_head = false;                           // "lm_head.weight" is in the file beside the latter
  bool expert_head = true;                           // gemma_expert.lm_head, which nothing uses, is in the file
};

// As the folder's model.safetensors (or index) has it; the published naming where there is none.
Naming naming_of(const std::string& folder);

}  // namespace lf::pi05
