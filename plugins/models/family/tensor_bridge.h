// Tensors over the ABI: views in, owned tensors out.
#pragma once

#include <ATen/core/Tensor.h>

#include "lf/plugin_api/tensor.h"

namespace lf::family {

// LF_DTYPE_... <-> LibTorch. Throws sdk::Failure(LF_E_UNSUPPORTED) for types that have no counterpart here.
at::ScalarType scalar_type(int32_t dtype);
int32_t dtype_of(at::ScalarType type);

// A view of host memory that someone else owns; undefined for an absent tensor. Throws sdk::Failure for device memory.
at::Tensor borrow(const lf_tensor& tensor);

// Hands a tensor over: its release lets go of it. Absent for an undefined one. Made contiguous where it is not.
lf_tensor give(const at::Tensor& tensor);

}  // namespace lf::family
