// Samples from data sets of latents: a conversation's answer names a file of tensors, chance adds noise and time.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "diffusion/options.h"
#include "diffusion/packed_sample.h"
#include "diffusion/tensor_file.h"
#include "family/draws.h"
#include "lf/plugin_api/model.h"

namespace lf::diffusion {

// The file named by the one picture or video of the last message, the assistant's, is a safetensors file:
//   latents      [C, H, W] or [C, F, H, W]   as the model's VAE makes them, normalised; sides in multiples of a patch's
//   context      [L, text columns]           of the text
//   pooled       [pooled columns]            Flux
//   condition.0, condition.1 ...  [C, H, W]  pictures given with the prompt (Qwen-Image-Edit)
//   y            [C', F, H, W]               what is put behind the noisy latents (Wan image to video: mask, image)
// Texts of the messages are for people to read. See README.md.
class LatentSamples {
 public:
  // Reads the empty prompt's file where the job names one. Throws sdk::Failure LF_E_INVALID.
  LatentSamples(const DiffusionConfig& config, const Options& options, uint64_t seed);

  // What is known from the file's header: rows, times; no values. [any]
  PackedSample describe(const lf_sample& sample) const { return make(sample, false); }
  PackedSample read(const lf_sample& sample) const { return make(sample, true); }

 private:
  void read_null_text();
  PackedSample make(const lf_sample& sample, bool values) const;
  void put_text(PackedSample& sample, std::vector<float> context, const TensorFile& file) const;
  void put_conditioning(PackedSample& sample, TensorFile& file, bool drop_text, bool values) const;
  void put_latents(PackedSample& sample, TensorFile& file, const Grid& grid, const family::Draws& draws,
                   float sigma) const;
  std::vector<Grid> put_conditions(PackedSample& sample, TensorFile& file, bool values) const;
  std::vector<int64_t> positions_of(int64_t text_rows, const std::vector<Grid>& pictures) const;

  const DiffusionConfig config_;
  const Options options_;
  const uint64_t seed_;
  const std::vector<NoiseLevel> schedule_;
  std::vector<float> null_context_, null_pooled_;
};

}  // namespace lf::diffusion
