// Parameters are plain tensors, bound by the owner of their memory.
#pragma once

#include <memory>

#include <ATen/ATen.h>

namespace lf::nn {

struct Adapters;

// A parameter: `value` [shape] in the compute dtype; `gradient` of the same shape in the compute dtype or f32,
// undefined where the parameter is frozen. Both are views of memory that someone else owns; blocks add to `gradient`,
// never set it.
struct Parameter {
  at::Tensor value;
  at::Tensor gradient;
  std::shared_ptr<const Adapters> adapters = {};  // of a linear map's weight (adapter.h); null: none

  bool defined() const { return value.defined(); }
  bool trained() const { return gradient.defined(); }  // itself, whatever its adapters are
  // Adds, in the gradient's own precision.
  void add_gradient(const at::Tensor& addend) const {
    if (gradient.defined()) at::Tensor(gradient).add_(addend);
  }
};

}  // namespace lf::nn
