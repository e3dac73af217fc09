#include "mesh/box.h"

#include <algorithm>

namespace lf {

int64_t Box::elements() const {
  int64_t n = 1;
  for (int axis = 0; axis < ndim; ++axis) n *= std::max<int64_t>(0, extent(axis));
  return n;
}

Box whole(std::span<const int64_t> shape) {
  Box box;
  box.ndim = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), box.end.begin());
  return box;
}

Box intersect(const Box& a, const Box& b) {
  Box common;
  common.ndim = a.ndim;
  for (int axis = 0; axis < a.ndim; ++axis) {
    common.begin[axis] = std::max(a.begin[axis], b.begin[axis]);
    common.end[axis] = std::max(common.begin[axis], std::min(a.end[axis], b.end[axis]));
  }
  return common;
}

bool contains(const Box& outer, const Box& inner) {
  if (outer.ndim != inner.ndim) return false;
  for (int axis = 0; axis < outer.ndim; ++axis) {
    if (inner.begin[axis] < outer.begin[axis] || inner.end[axis] > outer.end[axis]) return false;
  }
  return true;
}

Box relative_to(const Box& box, const Box& origin) {
  Box moved = box;
  for (int axis = 0; axis < box.ndim; ++axis) {
    moved.begin[axis] -= origin.begin[axis];
    moved.end[axis] -= origin.begin[axis];
  }
  return moved;
}

Box absolute_from(const Box& box, const Box& origin) {
  Box moved = box;
  for (int axis = 0; axis < box.ndim; ++axis) {
    moved.begin[axis] += origin.begin[axis];
    moved.end[axis] += origin.begin[axis];
  }
  return moved;
}

std::array<int64_t, kMaxDims> strides_of(std::span<const int64_t> shape) {
  std::array<int64_t, kMaxDims> stride{};
  int64_t n = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    stride[axis] = n;
    n *= shape[axis];
  }
  return stride;
}

// Cuts off, from the innermost axis outwards, the rows that the run enters or leaves in the middle; what is left at the
// first axis where both ends lie under one common index is a single box. Each axis adds at most a head and a tail.
std::vector<Box> boxes_of_run(std::span<const int64_t> shape, int64_t begin, int64_t end) {
  std::vector<Box> heads, tails;
  if (begin >= end) return heads;
  const int ndim = static_cast<int>(shape.size());
  if (ndim == 0) return {Box{}};
  const auto stride = strides_of(shape);
  // The box of the elements [first, last) that lie in one row of `axis`: last - first is a multiple of stride[axis].
  const auto box_at = [&](int axis, int64_t first, int64_t last) {
    Box box = whole(shape);
    for (int a = 0; a < axis; ++a) {
      box.begin[a] = first / stride[a] % shape[a];
      box.end[a] = box.begin[a] + 1;
    }
    box.begin[axis] = first / stride[axis] % shape[axis];
    box.end[axis] = box.begin[axis] + (last - first) / stride[axis];
    return box;
  };
  int axis = ndim - 1;
  for (; axis > 0; --axis) {
    const int64_t row = stride[axis - 1];  // elements under one index of the axis before
    if (begin / row == (end - 1) / row) break;
    const int64_t up = (begin + row - 1) / row * row, down = end / row * row;
    if (begin < up) heads.push_back(box_at(axis, begin, up));
    if (down < end) tails.push_back(box_at(axis, down, end));
    begin = up;
    end = down;
    if (begin == end) break;
  }
  if (begin < end) heads.push_back(box_at(axis, begin, end));
  heads.insert(heads.end(), tails.rbegin(), tails.rend());
  return heads;
}

}  // namespace lf
