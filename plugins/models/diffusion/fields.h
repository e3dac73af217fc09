// Samples given as tensors, noise and time included: parity cases.
#pragma once

#include <span>
#include <vector>

#include "diffusion/packed_sample.h"
#include "lf/plugin_api/tensor.h"

namespace lf::diffusion {

// Floating tensors are f32 and finite, and no axis is empty. B samples of one size; samples of several sizes have "0.",
// "1." ... before each name.
//   noisy_latents, target   [B, rows, in_channels] (Flux, Qwen-Image) or [B, channels, frames, height, width] (Wan)
//   timestep                [B], 0 to 1000
//   weight                  [B]: of each sample's mean squared error, 0 or more; without it 1
//   context                 [B, L, text columns]
//   context_mask            [B, L]; rows with 0 are left out, and keep their positions (Qwen-Image)
//   pooled, guidance        [B, pooled columns], [B] (Flux)
//   img_ids, txt_ids        [rows, 3], [L, 3] (Flux)
//   img_shapes              i64 [k, 3]: frames, height, width of what is wanted and of each picture given (Qwen-Image)
//   edit_latents            [B, rows of all pictures given, in_channels] (Qwen-Image)
//   y                       [B, channels more, frames, height, width]: put behind noisy_latents (Wan)
//   token_timestep          [B, rows]: instead of timestep, a time for every row (Wan)
//   loss_mask               broadcast over target: 1 counts, 0 does not; the same within a patch (Wan)
// latents, noise and sigma, from which the others were made, are passed over. Any other name is refused. Throws
// sdk::Failure LF_E_DATA, naming the field.
std::vector<PackedSample> read_fields(std::span<const lf_named_tensor> fields, const DiffusionConfig& config);

}  // namespace lf::diffusion
