#include "family/tensor_bridge.h"

#include <memory>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::family {

at::ScalarType scalar_type(int32_t dtype) {
  switch (dtype) {
    case LF_DTYPE_F32:
      return at::kFloat;
    case LF_DTYPE_BF16:
      return at::kBFloat16;
    case LF_DTYPE_F64:
      return at::kDouble;
    case LF_DTYPE_I64:
      return at::kLong;
    case LF_DTYPE_I32:
      return at::kInt;
    case LF_DTYPE_U8:
      return at::kByte;
    case LF_DTYPE_BOOL:
      return at::kBool;
    default:
      throw sdk::Failure(LF_E_UNSUPPORTED, "element type " + std::to_string(dtype) + " is not supported");
  }
}

int32_t dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return LF_DTYPE_F32;
    case at::kBFloat16:
      return LF_DTYPE_BF16;
    case at::kDouble:
      return LF_DTYPE_F64;
    case at::kLong:
      return LF_DTYPE_I64;
    case at::kInt:
      return LF_DTYPE_I32;
    case at::kByte:
      return LF_DTYPE_U8;
    case at::kBool:
      return LF_DTYPE_BOOL;
    default:
      throw sdk::Failure(LF_E_BUG, std::string("a tensor of type ") + at::toString(type) + " was to leave");
  }
}

at::Device device_of(uint64_t device_uid) {
  if (device_uid == 0) return at::kCPU;
  const auto accelerator = at::getAccelerator();
  if (!accelerator)
    throw sdk::Failure(LF_E_UNSUPPORTED,
                       "the model computes with LibTorch, which does not know this device: its plugin registers none");
  return {*accelerator, at::accelerator::getDeviceIndex()};
}

at::Tensor borrow(const lf_tensor& tensor) {
  if (!sdk::present(tensor)) return {};
  if (tensor.ndim < 0 || tensor.ndim > LF_MAX_DIMS) throw sdk::Failure(LF_E_INVALID, "a tensor's ndim is out of range");
  const at::IntArrayRef shape(tensor.shape, static_cast<size_t>(tensor.ndim));
  const at::IntArrayRef strides(tensor.strides, static_cast<size_t>(tensor.ndim));
  const at::TensorOptions options = at::dtype(scalar_type(tensor.dtype)).device(device_of(tensor.device_uid));
  if (sdk::element_count(tensor) == 0) return at::empty(shape, options);
  return at::from_blob(tensor.data, shape, strides, options);
}

lf_tensor give(const at::Tensor& tensor, uint64_t device_uid) {
  if (!tensor.defined()) return sdk::with_header<lf_tensor>();
  auto owner = std::make_unique<at::Tensor>(tensor.contiguous());
  lf_tensor given = sdk::borrow(owner->data_ptr(), dtype_of(owner->scalar_type()),
                                std::span(owner->sizes().data(), owner->sizes().size()));
  given.device_uid = device_uid;
  given.owner = owner.release();
  given.release = [](void* held) { delete static_cast<at::Tensor*>(held); };
  return given;
}

}  // namespace lf::family
