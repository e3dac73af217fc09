// What the torch tests run on two devices: a small transformer's training steps, and single operators.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace lf::testing {

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters, gradients;  // after the last step
};

// `steps` steps of AdamW on a causal transformer of two layers over fixed tokens, from parameters that depend on
// nothing but this function. `type` is that of the parameters.
Trained train(at::Device device, at::ScalarType type, int steps);

// Operators whose result has to be the same on any device, by name. Seeded before each call.
std::vector<std::pair<std::string, std::function<at::Tensor(at::Device)>>> operations();

}  // namespace lf::testing
