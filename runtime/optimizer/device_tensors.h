// Memory of a device as LibTorch's flat tensors. Internal to optimizer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <ATen/core/Tensor.h>

#include "model/device.h"
#include "model/float_range.h"

namespace lf {

// As LibTorch knows it; nothing where it does not.
std::optional<at::Device> torch_device(const Device& device);

// `where` is torch_device's. Over memory that outlives the tensor, and over zeroed memory of its own. Throws
// kUnavailable where there is no room.
at::Tensor tensor_over(std::byte* memory, int64_t elements, at::ScalarType type, at::Device where);
at::Tensor owning_tensor(const Device& device, int64_t elements, at::Device where);

// f32 elements of a flat tensor, copied to the host and from it.
FloatRange range_of(const at::Tensor& tensor, int64_t offset, int64_t elements);

// Does `work` without autograd; LibTorch's errors that are the device's, and no mistake of ours, become kUnavailable.
void on_the_device(const at::Tensor& tensor, const std::function<void()>& work);

}  // namespace lf
