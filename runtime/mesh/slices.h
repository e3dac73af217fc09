// From what a rank holds of a parameter to the whole parameter and to the tensors of files, and back. Pure.
//
//   local parameter  --held_boxes-->  whole parameter  --fragments-->  file tensors
//
// Three coordinate systems: a rank's own array (cut parts, joined); the whole parameter (uncut parts, joined), in which
// checkpoints are written; and the file tensors of a Hugging Face directory (before stacking and transposing).
#pragma once

#include <vector>

#include "mesh/box.h"
#include "mesh/parameter.h"

namespace lf {

using Place = lf_place;
inline constexpr Place kAlone{0, 1, 0, 1};

// What a rank holds of one part: the same elements in the rank's array and in the whole parameter.
struct HeldBox {
  int part = 0;
  Box local, full;
};

std::vector<int64_t> local_shape(const ParameterInfo& parameter, const Place& place);

// One box for each part of which this place holds anything, in the order of the parts.
std::vector<HeldBox> held_boxes(const ParameterInfo& parameter, const Place& place);

// Of what places[rank] holds, the boxes that no lower rank holds as well: over all ranks they cover the parameter
// exactly once, which is how copies are written.
std::vector<HeldBox> written_boxes(const ParameterInfo& parameter, const std::vector<Place>& places, size_t rank);

// The same elements in a file tensor, in the whole parameter and in a rank's array. With `transposed` the last two axes
// of the file run the other way round than the parameter's.
struct Fragment {
  int part = 0;
  int64_t index = 0;  // of the file tensor in a stack
  bool transposed = false;
  Box file, full, local;
};

// All file elements behind a box of a rank's array, or of the whole parameter (then `local` equals `full`).
std::vector<Fragment> fragments(const ParameterInfo& parameter, const Place& place, const Box& local);
std::vector<Fragment> fragments(const ParameterInfo& parameter, const Box& full);

// Where a box of a file tensor lies in the whole parameter.
Box full_box(const ParameterInfo& parameter, int part, int64_t index, const Box& file);

}  // namespace lf
