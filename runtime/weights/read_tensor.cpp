#include "weights/read_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"
#include "weights/convert.h"

namespace lf {
namespace {

constexpr int64_t kFp8Block = 128;
constexpr int64_t kTile = 64;  // of a transposition: 64 x 64 x 4 bytes stay in the first-level cache

// A box without its leading axes: extents and strides of the last `ndim` axes, and where its first element lies.
struct Walk {
  std::array<int64_t, kMaxDims> extent{}, stride{}, length{};
  int64_t start = 0;
};

Walk walk_of(const std::vector<int64_t>& shape, const Box& box, int ndim) {
  Walk walk;
  const auto stride = strides_of(shape);
  const int lead = box.ndim - ndim;
  for (int axis = 0; axis < box.ndim; ++axis) {
    walk.start += box.begin[axis] * stride[axis];
    if (axis < lead && box.extent(axis) != 1)
      fail(Exit::kBug, "copy_box: a leading axis of extent {}", box.extent(axis));
    if (axis < lead) continue;
    walk.extent[axis - lead] = box.extent(axis);
    walk.stride[axis - lead] = stride[axis];
    walk.length[axis - lead] = shape[axis];
  }
  return walk;
}

// A tile's columns become rows of `out`, `stride` elements apart.
template <typename Bits>
void turn(const std::byte* tile, std::byte* out, int64_t stride, int64_t rows, int64_t columns) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Bits));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(out + (c * stride + r) * kBytes, tile + (r * kTile + c) * kBytes, sizeof(Bits));
  }
}

// Rows of `from` are contiguous, rows of `to` are columns there.
void copy_transposed(DType from_type, const std::byte* from, int64_t from_stride, DType to_type, std::byte* to,
                     int64_t to_stride, int64_t rows, int64_t columns) {
  const int64_t from_bytes = dtype_bytes(from_type), to_bytes = dtype_bytes(to_type);
  std::array<std::byte, static_cast<size_t>(kTile * kTile * 8)> tile;
  for (int64_t row = 0; row < rows; row += kTile) {
    const int64_t n_rows = std::min(kTile, rows - row);
    for (int64_t column = 0; column < columns; column += kTile) {
      const int64_t n_columns = std::min(kTile, columns - column);
      for (int64_t r = 0; r < n_rows; ++r)
        convert(from_type, from + ((row + r) * from_stride + column) * from_bytes, to_type,
                tile.data() + r * kTile * to_bytes, n_columns);
      std::byte* out = to + (column * to_stride + row) * to_bytes;
      switch (to_bytes) {
        case 1:
          turn<uint8_t>(tile.data(), out, to_stride, n_rows, n_columns);
          break;
        case 2:
          turn<uint16_t>(tile.data(), out, to_stride, n_rows, n_columns);
          break;
        case 4:
          turn<uint32_t>(tile.data(), out, to_stride, n_rows, n_columns);
          break;
        default:
          turn<uint64_t>(tile.data(), out, to_stride, n_rows, n_columns);
          break;
      }
    }
  }
}

}  // namespace

BoxView packed(void* data, DType dtype, const Box& box) {
  BoxView view{data, dtype, {}, relative_to(box, box)};
  for (int axis = 0; axis < box.ndim; ++axis) view.shape.push_back(box.extent(axis));
  return view;
}

ConstBoxView packed(const void* data, DType dtype, const Box& box) {
  BoxView view = packed(const_cast<void*>(data), dtype, box);
  return {data, dtype, std::move(view.shape), view.box};
}

void copy_box(const ConstBoxView& from, const BoxView& to, bool transposed) {
  const int ndim = std::min(from.box.ndim, to.box.ndim);
  const Walk in = walk_of(from.shape, from.box, ndim);
  Walk out = walk_of(to.shape, to.box, ndim);
  if (transposed && ndim < 2) fail(Exit::kBug, "copy_box: {} axes cannot be transposed", ndim);
  if (transposed) std::swap(out.extent[ndim - 1], out.extent[ndim - 2]);
  if (!std::equal(in.extent.begin(), in.extent.begin() + ndim, out.extent.begin()))
    fail(Exit::kBug, "copy_box: the boxes differ in extent");
  if (from.box.empty()) return;

  // The last axes that one run covers on both sides.
  int inner = transposed ? ndim - 2 : ndim - 1;
  int64_t run = ndim == 0 ? 1 : in.extent[ndim - 1];
  while (!transposed && inner > 0 && in.extent[inner] == in.length[inner] && out.extent[inner] == out.length[inner])
    run *= in.extent[--inner];
  inner = std::max(inner, 0);

  const auto* source = static_cast<const std::byte*>(from.data);
  auto* target = static_cast<std::byte*>(to.data);
  const int64_t from_bytes = dtype_bytes(from.dtype), to_bytes = dtype_bytes(to.dtype);
  std::array<int64_t, kMaxDims> index{};
  while (true) {
    int64_t in_at = in.start, out_at = out.start;
    for (int axis = 0; axis < inner; ++axis) {
      in_at += index[axis] * in.stride[axis];
      out_at += index[axis] * out.stride[axis];
    }
    if (transposed) {
      copy_transposed(from.dtype, source + in_at * from_bytes, in.stride[ndim - 2], to.dtype,
                      target + out_at * to_bytes, out.stride[ndim - 2], in.extent[ndim - 2], in.extent[ndim - 1]);
    } else {
      convert(from.dtype, source + in_at * from_bytes, to.dtype, target + out_at * to_bytes, run);
    }
    int axis = inner - 1;
    for (; axis >= 0; --axis) {
      if (++index[axis] < in.extent[axis]) break;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

StoredTensor fp8_scale(const ModelDirectory& directory, const TensorEntry& tensor) {
  return tensor.dtype == DType::kF8E4M3 ? directory.find(tensor.name + "_scale_inv") : StoredTensor{};
}

std::vector<int64_t> fp8_scale_shape(const TensorEntry& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  for (size_t axis = shape.size() < 2 ? 0 : shape.size() - 2; axis < shape.size(); ++axis)
    shape[axis] = (shape[axis] + kFp8Block - 1) / kFp8Block;
  return shape;
}

void read_box(const StoredTensor& tensor, const StoredTensor& scale, const Box& box, const BoxView& to,
              bool transposed) {
  const TensorEntry& entry = *tensor.entry;
  if (scale.file == nullptr) {
    copy_box({tensor.bytes().data(), entry.dtype, entry.shape, box}, to, transposed);
    return;
  }
  // Row by row: each is multiplied block by block, then placed as a box of one row.
  const int ndim = box.ndim;
  const auto scale_stride = strides_of(scale.entry->shape);
  const auto* fp8 = reinterpret_cast<const uint8_t*>(tensor.bytes().data());
  std::vector<float> row(static_cast<size_t>(box.extent(ndim - 1)));
  const auto stride = strides_of(entry.shape);
  Box at = box;
  for (int axis = 0; axis + 1 < ndim; ++axis) at.end[axis] = at.begin[axis] + 1;
  if (box.empty()) return;
  while (true) {
    int64_t offset = 0, scale_offset = 0;
    for (int axis = 0; axis + 1 < ndim; ++axis) {
      offset += at.begin[axis] * stride[axis];
      scale_offset += (axis + 2 == ndim ? at.begin[axis] / kFp8Block : at.begin[axis]) * scale_stride[axis];
    }
    for (int64_t column = box.begin[ndim - 1]; column < box.end[ndim - 1];) {
      const int64_t last = std::min(box.end[ndim - 1], (column / kFp8Block + 1) * kFp8Block);
      float factor;
      std::memcpy(&factor, scale.bytes().data() + (scale_offset + column / kFp8Block) * 4, sizeof factor);
      for (; column < last; ++column)
        row[static_cast<size_t>(column - box.begin[ndim - 1])] = f32_from_f8_e4m3(fp8[offset + column]) * factor;
    }
    BoxView place = to;
    const int lead = to.box.ndim - ndim;
    for (int axis = 0; axis + 1 < ndim; ++axis) {
      const int theirs = lead + (transposed && axis + 2 == ndim ? ndim - 1 : axis);
      place.box.begin[theirs] = to.box.begin[theirs] + at.begin[axis] - box.begin[axis];
      place.box.end[theirs] = place.box.begin[theirs] + 1;
    }
    copy_box(packed(static_cast<const void*>(row.data()), DType::kF32, at), place, transposed);
    int axis = ndim - 2;
    for (; axis >= 0; --axis) {
      if (++at.begin[axis] < box.end[axis]) break;
      at.begin[axis] = box.begin[axis];
    }
    for (int a = 0; a + 1 < ndim; ++a) at.end[a] = at.begin[a] + 1;
    if (axis < 0) return;
  }
}

}  // namespace lf
