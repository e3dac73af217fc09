// A diffusion transformer as its config.json says it: diffusers' three classes, and Wan's own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "family/findings.h"

namespace lf::diffusion {

enum class Architecture { kFlux, kQwenImage, kWan };

struct DiffusionConfig {
  Architecture architecture = Architecture::kFlux;
  int64_t heads = 0, head_size = 0, layers = 0;
  int64_t in_channels = 0, out_channels = 0;  // values of a patch (Flux, Qwen-Image); channels (Wan)
  int64_t text_columns = 0;

  // Flux and Qwen-Image. Latents are packed 2 x 2 into rows of in_channels before the model sees them.
  int64_t single_layers = 0, pooled_columns = 0, patch = 1;
  std::vector<int64_t> rotary_sections;
  bool guidance = false;
  bool clean_conditions = false;  // zero_cond_t: pictures given with the prompt are at time 0

  // Wan
  std::vector<int64_t> patch_sizes = {1, 2, 2};  // frames, rows, columns
  int64_t time_columns = 256, inner = 0;
  double eps = 1e-6;
  bool cross_norm = true;
  bool original_names = false;  // the authors' own checkpoint

  // Keys that the file has and this code does not know; the caller says so once.
  std::vector<std::string> unknown_keys;

  int64_t width() const { return heads * head_size; }
  // Of a row of the model's input, and of its output.
  int64_t in_columns() const;
  int64_t out_columns() const;
  // Channels of the latents that are trained on, and how many of them make a row: frames, rows, columns.
  int64_t latent_channels() const;
  std::vector<int64_t> packing() const;
};

// What may be left out has diffusers 0.42's values (models/transformers/transformer_{flux,qwenimage,wan}.py), of
// WanModel those of wan/modules/model.py. Mistakes are what is wrong, sizes that are not stated
// (family/json_fields.h), and what would change the maths in a way that is not built. Throws sdk::Failure(LF_E_INVALID)
// for another _class_name, after which nothing could be judged.
DiffusionConfig parse_config(std::string_view config_json, family::Findings& findings);
// Throws all mistakes as one sdk::Failure(LF_E_INVALID).
DiffusionConfig parse_config(std::string_view config_json);

}  // namespace lf::diffusion
