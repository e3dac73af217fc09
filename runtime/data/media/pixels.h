// A decoded picture or clip in host memory.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "lf/plugin_sdk/tensor.hpp"

namespace lf {

// u8 RGB, row-major. Left uninitialised: pages that a refused file never fills are never touched.
struct Pixels {
  Pixels() = default;
  Pixels(int64_t pixel_count, int channels = 3) : bytes(new uint8_t[static_cast<size_t>(pixel_count) * channels]) {}

  std::unique_ptr<uint8_t[]> bytes;

  // Hands the memory over as a tensor of this shape; its release frees it.
  lf_tensor give(std::initializer_list<int64_t> shape) {
    lf_tensor tensor = sdk::borrow(bytes.get(), LF_DTYPE_U8, std::span(shape.begin(), shape.size()));
    tensor.owner = bytes.release();
    tensor.release = [](void* owner) { delete[] static_cast<uint8_t*>(owner); };
    return tensor;
  }
};

}  // namespace lf
