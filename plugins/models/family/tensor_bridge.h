// Tensors over the ABI: views in, owned tensors out.
#pragma once

#include <ATen/core/Tensor.h>

#include "lf/plugin_api/tensor.h"

namespace lf::family {

// LF_DTYPE_... <-> LibTorch. Throws sdk::Failure(LF_E_UNSUPPORTED) for types that have no counterpart here.
at::ScalarType scalar_type(int32_t dtype);
int32_t dtype_of(at::ScalarType type);

// Where memory of a device is for LibTorch: 0 is the CPU, anything else its one accelerator (a worker opens one device,
// and that one is current on its threads). Throws sdk::Failure(LF_E_UNSUPPORTED) where LibTorch knows of none.
at::Device device_of(uint64_t device_uid);

// A view of memory that someone else owns; undefined for an absent tensor.
at::Tensor borrow(const lf_tensor& tensor);

// Hands a tensor over: its release lets go of it. Absent for an undefined one. Made contiguous where it is not.
// `device_uid` is of the device that the tensor is on.
lf_tensor give(const at::Tensor& tensor, uint64_t device_uid);

}  // namespace lf::family
