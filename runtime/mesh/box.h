// Boxes of tensors: half-open ranges along every axis. Pure; what slices, checkpoints and recovery compute with.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lf {

inline constexpr int kMaxDims = 8;

// Elements begin[a] <= index[a] < end[a] of a tensor of `ndim` axes. A scalar (ndim 0) has one element.
struct Box {
  int ndim = 0;
  std::array<int64_t, kMaxDims> begin{}, end{};

  int64_t extent(int axis) const { return end[axis] - begin[axis]; }
  int64_t elements() const;
  bool empty() const { return elements() == 0; }
  bool operator==(const Box&) const = default;
};

// All of a tensor. At most kMaxDims axes, none negative: checked where shapes enter.
Box whole(std::span<const int64_t> shape);

// The common part; empty (some extent 0) where there is none. Both of the same ndim.
Box intersect(const Box& a, const Box& b);

bool contains(const Box& outer, const Box& inner);

// `box` in coordinates whose origin lies at `origin`, and back.
Box relative_to(const Box& box, const Box& origin);
Box absolute_from(const Box& box, const Box& origin);

// The elements [begin, end) of a row-major flat tensor as disjoint boxes in ascending order, at most 2 * ndim - 1 of
// them (1 for a scalar).
std::vector<Box> boxes_of_run(std::span<const int64_t> shape, int64_t begin, int64_t end);

// Calls visit(offset, length) for each run of a box that is contiguous in a row-major tensor of `shape`, in ascending
// order; offset and length in elements.
template <typename Visit>
void for_each_run(std::span<const int64_t> shape, const Box& box, Visit&& visit);

// Row-major strides in elements.
std::array<int64_t, kMaxDims> strides_of(std::span<const int64_t> shape);

// ---- implementation of the template
// -----------------------------------------------------------------------------------

template <typename Visit>
void for_each_run(std::span<const int64_t> shape, const Box& box, Visit&& visit) {
  if (box.empty()) return;
  const auto stride = strides_of(shape);
  int inner = box.ndim;  // axes from here on are whole, so that a run spans them and the axis before
  while (inner > 0 && box.extent(inner - 1) == shape[inner - 1]) --inner;
  const int run_axis = inner == 0 ? -1 : inner - 1;
  int64_t length = 1;
  for (int axis = run_axis < 0 ? 0 : run_axis; axis < box.ndim; ++axis) length *= box.extent(axis);
  std::array<int64_t, kMaxDims> index = box.begin;
  while (true) {
    int64_t offset = 0;
    for (int axis = 0; axis < box.ndim; ++axis) offset += index[axis] * stride[axis];
    visit(offset, length);
    int axis = run_axis - 1;
    for (; axis >= 0; --axis) {
      if (++index[axis] < box.end[axis]) break;
      index[axis] = box.begin[axis];
    }
    if (axis < 0) return;
  }
}

}  // namespace lf
