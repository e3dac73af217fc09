// lf_tensor in C++: a contiguous view, and one that owns what it shows.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lf/plugin_api/tensor.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::sdk {

inline int64_t item_bytes(int32_t dtype) {
  switch (dtype) {
    case LF_DTYPE_F64:
    case LF_DTYPE_I64:
      return 8;
    case LF_DTYPE_F32:
    case LF_DTYPE_I32:
      return 4;
    case LF_DTYPE_BF16:
    case LF_DTYPE_F16:
    case LF_DTYPE_I16:
      return 2;
    case LF_DTYPE_U8:
    case LF_DTYPE_BOOL:
    case LF_DTYPE_F8_E4M3:
    case LF_DTYPE_I8:
      return 1;
    default:
      throw Failure(LF_E_UNSUPPORTED, "unknown element type " + std::to_string(dtype));
  }
}

inline int64_t element_count(const lf_tensor& tensor) {
  int64_t n = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) n *= tensor.shape[i];
  return n;
}

inline bool present(const lf_tensor& tensor) { return tensor.dtype != 0; }

inline void release(lf_tensor& tensor) noexcept {
  if (tensor.release != nullptr) std::exchange(tensor.release, nullptr)(tensor.owner);
}

// A borrowed, contiguous view of host memory.
inline lf_tensor borrow(void* data, int32_t dtype, std::span<const int64_t> shape) {
  if (shape.size() > LF_MAX_DIMS) throw Failure(LF_E_INVALID, "a tensor crosses with at most 8 dimensions");
  lf_tensor tensor = with_header<lf_tensor>();
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.ndim = static_cast<int32_t>(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    stride *= shape[i];
  }
  return tensor;
}

// Hands a vector over: the receiver's release frees it.
template <typename T>
lf_tensor give(std::vector<T> values, int32_t dtype, std::span<const int64_t> shape) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  lf_tensor tensor = borrow(owner->data(), dtype, shape);
  if (element_count(tensor) * item_bytes(dtype) != static_cast<int64_t>(owner->size() * sizeof(T)))
    throw Failure(LF_E_BUG, "a tensor's shape does not cover its values");
  tensor.owner = owner.release();
  tensor.release = [](void* held) { delete static_cast<std::vector<T>*>(held); };
  return tensor;
}

}  // namespace lf::sdk
