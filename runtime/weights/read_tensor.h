// Boxes of arrays copied with conversion: the one inner loop of loading and of writing models.
#pragma once

#include <vector>

#include "mesh/box.h"
#include "weights/directory.h"

namespace lf {

// A box of a row-major array of `shape`.
struct ConstBoxView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  Box box;
};
struct BoxView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  Box box;
};

// `box` packed by itself, without anything around it.
BoxView packed(void* data, DType dtype, const Box& box);
ConstBoxView packed(const void* data, DType dtype, const Box& box);

// Copies box to box; with `transposed` the last two axes of one side are swapped against the other's. Either side may
// have further leading axes along which its box has extent 1. Throws lf::Error(kBug) where the boxes do not match.
void copy_box(const ConstBoxView& from, const BoxView& to, bool transposed);

// The tensor that scales an FP8 tensor by blocks of 128 x 128 over its last two axes: "<name>_scale_inv", F32
// (DeepSeek-V3, inference/fp8_cast_bf16.py). File null where there is none.
StoredTensor fp8_scale(const ModelDirectory& directory, const TensorEntry& tensor);
std::vector<int64_t> fp8_scale_shape(const TensorEntry& tensor);

// A box of a stored tensor into memory; FP8 tensors are multiplied by `scale`.
void read_box(const StoredTensor& tensor, const StoredTensor& scale, const Box& box, const BoxView& to,
              bool transposed);

}  // namespace lf
