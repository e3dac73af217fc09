// Handing bound tensors to blocks, in the order of the parameter table.
#pragma once

#include <span>
#include <string>

#include "nn/linear.h"

namespace lf::components {

// Takes a unit's parameters one after the other. Throws where there are too few, or at done() where some are left.
class Binding {
 public:
  explicit Binding(std::span<const nn::Parameter> parameters) : parameters_(parameters) {}

  // What is no linear map: nothing would run its adapters.
  const nn::Parameter& take() {
    const nn::Parameter& parameter = next();
    TORCH_CHECK(parameter.adapters == nullptr, "parameter ", next_ - 1, " of the unit is described as a linear map");
    return parameter;
  }
  // A table, a head or a stack of experts, which may have adapters.
  const nn::Parameter& take_adaptable() { return next(); }
  nn::Linear take_linear(bool bias) {
    nn::Linear linear{next(), {}};
    if (bias) linear.bias = take();
    return linear;
  }
  nn::Norm take_norm(nn::NormKind kind, double eps) {
    nn::Norm norm{kind, eps, take(), {}};
    if (kind == nn::NormKind::kLayer) norm.bias = take();
    return norm;
  }
  void done() const {
    TORCH_CHECK(next_ == parameters_.size(), parameters_.size(), " parameters are bound, the unit has ", next_);
  }

 private:
  const nn::Parameter& next() {
    TORCH_CHECK(next_ < parameters_.size(), "too few parameters are bound: ", parameters_.size());
    return parameters_[next_++];
  }

  std::span<const nn::Parameter> parameters_;
  size_t next_ = 0;
};

inline bool any_trained(std::span<const nn::Parameter> parameters) {
  for (const nn::Parameter& parameter : parameters)
    if (parameter.trained() || (parameter.adapters != nullptr && parameter.adapters->trained())) return true;
  return false;
}

}  // namespace lf::components
