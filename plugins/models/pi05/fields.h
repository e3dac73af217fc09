// Samples given as tensors, noise and time included: parity cases.
#pragma once

#include <span>
#include <vector>

#include "lf/plugin_api/tensor.h"
#include "pi05/policy_sample.h"

namespace lf::pi05 {

// B samples; floating tensors are f32, masks bool or integers.
//   image.0, image.1 ...     [B, 3, side, side] from -1 to 1
//   image_mask.0 ...         [B]: 0 where the camera is absent; without it every one is there
//   tokens, token_mask       [B, L]: the prompt; rows with 0 are left out
//   actions, noise           [B, horizon, action columns]
//   time                     [B], 0 to 1, 1 being noise
//   action_is_pad            [B, horizon]: 1 where a step does not count; without it every one does
//   action_dim               one number: columns that count; without it the config's
//   sampling_steps           one number: actions are also sampled from `noise`, in so many Euler steps
// Any other name is refused, and so are values that are not finite. Throws sdk::Failure LF_E_DATA, naming the field.
std::vector<PolicySample> read_fields(std::span<const lf_named_tensor> fields, const Pi05Config& config);

}  // namespace lf::pi05
