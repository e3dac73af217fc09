// AdamW on flat tensors of any device, by LibTorch's elementwise operators.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "optimizer/adamw_memory.h"

namespace lf {

// Flat, of one length and one device; f32 but for `compute`, which is bf16, or undefined where models read master.
struct AdamWTensors {
  at::Tensor master, gradients, m, v, compute;
};

// Each operator rounds once, in the order of adamw_update, so that a device which rounds as IEEE 754 says gives the
// host's bits; only the norm, summed in f64, may differ from the host's in its last digits. A step scales the gradients
// in place where it clips. Neighbours with the same numbers are one range of the operators, the few elements of padding
// between them included, which are zero and stay zero. Square roots that the device does not round so are taken in f64.
// Beside the tensors it takes 16 MiB, and 32 for a norm. Throws kUnavailable where the device fails or is full,
// c10::Error where it has not one of the operators.
std::unique_ptr<AdamWMemory> adamw_on_tensors(AdamWTensors tensors, std::vector<ParameterRange> parameters);

}  // namespace lf
