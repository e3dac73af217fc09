// An InternVL model as its config.json says it, in transformers' layout or the authors'.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "family/text_config.h"

namespace lf::internvl {

using family::TextConfig;

// transformers' "-hf" checkpoints (model_type internvl), or OpenGVLab's own (internvl_chat). Names of weights differ,
// too.
enum class Layout { kTransformers, kOriginal };

struct VisionConfig {
  int64_t hidden_size = 0, num_hidden_layers = 0, num_attention_heads = 0, intermediate_size = 0;
  int64_t num_channels = 3, image_size = 0, patch_size = 0;
  bool rms_norm = false, query_key_norms = false, qkv_bias = true;
  double layer_norm_eps = 1e-6, layer_scale = 0.1, initializer_range = 0.02;
};

// How pictures are cut, as config.json says it (the authors' layout); the processor's file may say otherwise.
struct TileConfig {
  int64_t least = 1, most = 12;
  bool thumbnail = true, dynamic = true;
};

struct InternVlConfig {
  Layout layout = Layout::kTransformers;
  std::string text_type;  // llama, internlm2, qwen2, qwen3, qwen3_moe
  TextConfig text;
  VisionConfig vision;
  TileConfig tiles;
  int64_t tile_size = 0;                  // pixels of a side
  int64_t merge = 2;                      // 1 / downsample_ratio
  std::optional<int64_t> image_token_id;  // where the file says it
  bool tie_word_embeddings = false;
  // Keys that the file has and this code does not know; the caller says so once.
  std::vector<std::string> unknown_keys;

  int64_t tile_patches() const { return (tile_size / vision.patch_size) * (tile_size / vision.patch_size); }
  int64_t tile_tokens() const { return tile_patches() / (merge * merge); }
};

// What may be left out has the reference's values (transformers 5.24, configuration_internvl.py; OpenGVLab's
// configuration_internvl_chat.py and configuration_intern_vit.py). Mistakes are what is wrong, sizes that are not
// stated (family/json_fields.h), and what would change the maths in a way that is not built: other selected layers,
// other pixel shuffles, towers without a class token's position, dropout, other activations, quantised weights. Throws
// sdk::Failure(LF_E_INVALID) for another model_type, after which nothing could be judged.
InternVlConfig parse_config(std::string_view config_json, family::Findings& findings);
// Throws all mistakes as one sdk::Failure(LF_E_INVALID).
InternVlConfig parse_config(std::string_view config_json);

}  // namespace lf::internvl
