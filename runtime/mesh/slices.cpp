#include "mesh/slices.h"

#include <algorithm>
#include <utility>

namespace lf {
namespace {

lf_part abi_part(const ParameterPart& part) {
  lf_part made{};
  made.h.size = sizeof made;
  made.flags = part.flags;
  made.ndim = static_cast<int32_t>(part.shape.size());
  std::copy(part.shape.begin(), part.shape.end(), made.shape);
  made.axis = part.axis;
  made.along = part.along;
  made.piece = part.piece;
  made.stack = part.stack;
  return made;
}

// What a place holds of a part, in the part's own coordinates.
Box cut(const ParameterPart& part, const Place& place) {
  Box box = whole(part.shape);
  if (part.along == LF_ALONG_NONE) return box;
  const lf_part described = abi_part(part);
  const lf_range range = lf_slice(&described, place);
  box.begin[part.axis] = range.begin;
  box.end[part.axis] = range.end;
  return box;
}

// Where the parts before `part` end along the join axis of the whole parameter.
int64_t join_offset(const ParameterInfo& parameter, int part) {
  int64_t offset = 0;
  for (int k = 0; k < part; ++k) offset += parameter.parts[k].shape[parameter.join_axis];
  return offset;
}

void shift(Box& box, int axis, int64_t by) {
  box.begin[axis] += by;
  box.end[axis] += by;
}

void swap_last_axes(Box& box) {
  std::swap(box.begin[box.ndim - 1], box.begin[box.ndim - 2]);
  std::swap(box.end[box.ndim - 1], box.end[box.ndim - 2]);
}

// A box of a part within one index of its stack -> the file tensor's coordinates.
Box to_file(const ParameterPart& part, Box box) {
  if ((part.flags & LF_PART_STACK) != 0) {
    std::shift_left(box.begin.begin(), box.begin.begin() + box.ndim, 1);
    std::shift_left(box.end.begin(), box.end.begin() + box.ndim, 1);
    --box.ndim;
    box.begin[box.ndim] = box.end[box.ndim] = 0;
  }
  if ((part.flags & LF_PART_TRANSPOSE) != 0) swap_last_axes(box);
  return box;
}

Box from_file(const ParameterPart& part, int64_t index, Box box) {
  if ((part.flags & LF_PART_TRANSPOSE) != 0) swap_last_axes(box);
  if ((part.flags & LF_PART_STACK) != 0) {
    ++box.ndim;
    std::shift_right(box.begin.begin(), box.begin.begin() + box.ndim, 1);
    std::shift_right(box.end.begin(), box.end.begin() + box.ndim, 1);
    box.begin[0] = index;
    box.end[0] = index + 1;
  }
  return box;
}

// Appends the fragments of a box that lies in one part, given in the whole parameter's coordinates.
void append_fragments(const ParameterInfo& parameter, int part_index, const Box& full, std::vector<Fragment>& out) {
  const ParameterPart& part = parameter.parts[part_index];
  Box inside = full;
  if (part_index > 0) shift(inside, parameter.join_axis, -join_offset(parameter, part_index));
  const bool stacked = (part.flags & LF_PART_STACK) != 0;
  const int64_t first = stacked ? inside.begin[0] : 0, last = stacked ? inside.end[0] : 1;
  for (int64_t index = first; index < last; ++index) {
    Box one = inside;
    if (stacked) {
      one.begin[0] = index;
      one.end[0] = index + 1;
    }
    Fragment fragment;
    fragment.part = part_index;
    fragment.index = index;
    fragment.transposed = (part.flags & LF_PART_TRANSPOSE) != 0;
    fragment.file = to_file(part, one);
    fragment.full = one;
    if (part_index > 0) shift(fragment.full, parameter.join_axis, join_offset(parameter, part_index));
    fragment.local = fragment.full;
    out.push_back(fragment);
  }
}

}  // namespace

std::vector<int64_t> local_shape(const ParameterInfo& parameter, const Place& place) {
  std::vector<int64_t> shape = parameter.shape;
  for (size_t k = 0; k < parameter.parts.size(); ++k) {
    const Box box = cut(parameter.parts[k], place);
    for (int axis = 0; axis < box.ndim; ++axis) {
      const bool joins = k > 0 && axis == parameter.join_axis;
      shape[axis] = joins ? shape[axis] + box.extent(axis) : box.extent(axis);
    }
  }
  return shape;
}

std::vector<HeldBox> held_boxes(const ParameterInfo& parameter, const Place& place) {
  std::vector<HeldBox> held;
  int64_t full_offset = 0, local_offset = 0;
  for (int k = 0; k < static_cast<int>(parameter.parts.size()); ++k) {
    const ParameterPart& part = parameter.parts[k];
    HeldBox box;
    box.part = k;
    box.full = cut(part, place);
    box.local = relative_to(box.full, box.full);
    const bool joined = parameter.parts.size() > 1;
    const int64_t length = joined ? box.local.extent(parameter.join_axis) : 0;
    if (joined) {
      shift(box.full, parameter.join_axis, full_offset);
      shift(box.local, parameter.join_axis, local_offset);
      full_offset += part.shape[parameter.join_axis];
      local_offset += length;
    }
    if (!box.full.empty()) held.push_back(box);
  }
  return held;
}

std::vector<HeldBox> written_boxes(const ParameterInfo& parameter, const std::vector<Place>& places, size_t rank) {
  std::vector<HeldBox> written = held_boxes(parameter, places[rank]);
  for (size_t lower = 0; lower < rank && !written.empty(); ++lower) {
    const std::vector<HeldBox> theirs = held_boxes(parameter, places[lower]);
    std::erase_if(written, [&](const HeldBox& mine) {
      return std::any_of(theirs.begin(), theirs.end(),
                         [&](const HeldBox& other) { return other.part == mine.part && other.full == mine.full; });
    });
  }
  return written;
}

std::vector<Fragment> fragments(const ParameterInfo& parameter, const Place& place, const Box& local) {
  std::vector<Fragment> out;
  for (const HeldBox& held : held_boxes(parameter, place)) {
    const Box common = intersect(held.local, local);
    if (common.empty()) continue;
    const size_t before = out.size();
    append_fragments(parameter, held.part, absolute_from(relative_to(common, held.local), held.full), out);
    for (size_t i = before; i < out.size(); ++i)
      out[i].local = absolute_from(relative_to(out[i].full, held.full), held.local);
  }
  return out;
}

std::vector<Fragment> fragments(const ParameterInfo& parameter, const Box& full) {
  return fragments(parameter, kAlone, full);
}

Box full_box(const ParameterInfo& parameter, int part, int64_t index, const Box& file) {
  Box box = from_file(parameter.parts[part], index, file);
  if (part > 0) shift(box, parameter.join_axis, join_offset(parameter, part));
  return box;
}

}  // namespace lf
