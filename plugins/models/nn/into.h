// Results that go where the caller wants them.
#pragma once

#include <ATen/core/Tensor.h>

namespace lf::nn {

// `made` itself, or `into` with its values where that is defined.
inline at::Tensor put_into(const at::Tensor& into, const at::Tensor& made) {
  if (!into.defined()) return made;
  at::Tensor place = into;
  return place.copy_(made);
}

}  // namespace lf::nn
