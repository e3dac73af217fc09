// `lfrun parity DIR`: a model plugin against recorded reference numbers.
#pragma once

#include <span>
#include <string>

#include "config/job.h"

namespace lf {

// Arguments: DIR [CASE...] [--dtype fp32|bf16] [--config FILE] [--family ID] [--device ID] [--op-fallback error|warn]
//            [--out DIR]
//
// For every case (all by default) loads DIR/config.json and DIR/model.safetensors, runs inputs.safetensors forward and
// backward, writes actual.safetensors under --out DIR/<case> (default: beside the inputs), and, where there is an
// expected.safetensors, prints a table of outputs, losses, gradients and the AdamW trajectory. Returns kMismatch (1)
// where anything is out of tolerance.
//
// Tolerances in fp32: outputs 2e-5 absolute (noise between the reference's own attention back ends is 3e-6 to 8e-6),
// losses 1e-5, a gradient |d| <= 1e-4 max|g| of its tensor + 1e-6 of the norm of all gradients (tensors whose true
// gradient is 0 hold rounding noise). The trajectory: losses and gradient
// norms of 5 steps to 2e-4 relative, since differences grow with every update. In bf16, which keeps 8 bits, losses to
// 2e-2 relative and all gradients together to a tenth of their norm; outputs are printed and not judged.
int run_parity(std::span<const std::string> arguments, const PluginPlaces& places);

}  // namespace lf
