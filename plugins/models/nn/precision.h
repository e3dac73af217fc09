// The type that sums, norms and exponents are taken in, whatever the type of their input.
#pragma once

#include <ATen/core/Tensor.h>

namespace lf::nn {

// f64 for f64, else f32.
inline at::ScalarType wide(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

}  // namespace lf::nn
