#include "mesh/parameter.h"

#include <limits>
#include <string_view>
#include <unordered_map>

#include <fmt/ranges.h>

#include "core/error.h"
#include "mesh/box.h"

namespace lf {
namespace {

template <typename... Args>
[[noreturn]] void refuse(const ParameterInfo& parameter, fmt::format_string<Args...> text, Args&&... args) {
  fail(Exit::kConfig, "parameter {}: {}; the model plugin's description is wrong", parameter.name,
       fmt::format(text, std::forward<Args>(args)...));
}

void check_shape(const ParameterInfo& parameter, const std::vector<int64_t>& shape) {
  if (shape.size() > kMaxDims) refuse(parameter, "expected at most {} axes, got {}", kMaxDims, shape.size());
  int64_t elements = 1;
  for (const int64_t length : shape) {
    if (length < 0) refuse(parameter, "expected lengths of 0 and more, got shape [{}]", fmt::join(shape, ", "));
    if (__builtin_mul_overflow(elements, length == 0 ? 1 : length, &elements))
      refuse(parameter, "shape [{}] has more elements than can be counted", fmt::join(shape, ", "));
  }
}

void check_part(const ParameterInfo& parameter, const ParameterPart& part) {
  const int ndim = static_cast<int>(parameter.shape.size());
  check_shape(parameter, part.shape);
  if (part.name.empty()) refuse(parameter, "a part without a name");
  if (static_cast<int>(part.shape.size()) != ndim)
    refuse(parameter, "part {} has {} axes, the parameter has {}", part.name, part.shape.size(), ndim);
  if (part.along != LF_ALONG_NONE && (part.axis < 0 || part.axis >= ndim))
    refuse(parameter, "part {} is cut along axis {} of {}", part.name, part.axis, ndim);
  if (part.along != LF_ALONG_NONE && part.piece < 1)
    refuse(parameter, "part {}: expected a piece of 1 or more rows, got {}", part.name, part.piece);
  const bool stacked = (part.flags & LF_PART_STACK) != 0;
  if (stacked && (ndim < 1 || part.stack != part.shape[0] || part.stack < 1))
    refuse(parameter, "part {} stacks {} tensors into shape [{}]", part.name, part.stack, fmt::join(part.shape, ", "));
  if (stacked && part.name.find("{}") == part.name.npos)
    refuse(parameter, "part {} is stacked, but its name has no {{}} for the index", part.name);
  if ((part.flags & LF_PART_TRANSPOSE) != 0 && ndim - (stacked ? 1 : 0) < 2)
    refuse(parameter, "part {} is transposed, but its files have fewer than two axes", part.name);
}

}  // namespace

void check_parameters(const std::vector<ParameterInfo>& table) {
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < table.size(); ++i) {
    const ParameterInfo& parameter = table[i];
    const int ndim = static_cast<int>(parameter.shape.size());
    check_shape(parameter, parameter.shape);
    if (!seen.emplace(parameter.name, i).second) refuse(parameter, "expected names that differ, got this one twice");
    if (parameter.parts.empty()) refuse(parameter, "expected at least one part, got none");
    if (parameter.parts.size() > 1 && (parameter.join_axis < 0 || parameter.join_axis >= ndim))
      refuse(parameter, "its parts are joined along axis {} of {}", parameter.join_axis, ndim);
    int64_t joined = 0;
    for (const ParameterPart& part : parameter.parts) {
      check_part(parameter, part);
      for (int axis = 0; axis < ndim; ++axis) {
        const bool join = parameter.parts.size() > 1 && axis == parameter.join_axis;
        if (!join && part.shape[axis] != parameter.shape[axis])
          refuse(parameter, "part {} of shape [{}] does not fit [{}]", part.name, fmt::join(part.shape, ", "),
                 fmt::join(parameter.shape, ", "));
        // A cut across the joined parts must leave all of them equally wide.
        const ParameterPart& first = parameter.parts[0];
        if (!join && (part.axis == axis || first.axis == axis) && (part.along | first.along) != LF_ALONG_NONE &&
            (part.along != first.along || part.axis != first.axis || part.piece != first.piece ||
             (part.flags & LF_PART_COPY) != (first.flags & LF_PART_COPY)))
          refuse(parameter, "parts {} and {} are cut differently along axis {}, where they are not joined", first.name,
                 part.name, axis);
      }
      if (parameter.parts.size() > 1) joined += part.shape[parameter.join_axis];
    }
    if (parameter.parts.size() > 1 && joined != parameter.shape[parameter.join_axis])
      refuse(parameter, "its parts have {} rows along axis {}, the parameter {}", joined, parameter.join_axis,
             parameter.shape[parameter.join_axis]);
    if (parameter.tied_to >= 0) {
      if (parameter.tied_to >= static_cast<int64_t>(i) || table[parameter.tied_to].tied_to >= 0)
        refuse(parameter, "expected a tie to an earlier parameter with values of its own, got number {}",
               parameter.tied_to);
      if (table[parameter.tied_to].shape != parameter.shape)
        refuse(parameter, "tied to {} of another shape", table[parameter.tied_to].name);
    }
  }
}

int64_t file_tensor_count(const ParameterPart& part) { return (part.flags & LF_PART_STACK) != 0 ? part.stack : 1; }

std::string file_tensor_name(const ParameterPart& part, int64_t index) {
  if ((part.flags & LF_PART_STACK) == 0) return part.name;
  std::string name = part.name;
  return name.replace(name.find("{}"), 2, std::to_string(index));
}

std::vector<int64_t> file_tensor_shape(const ParameterPart& part) {
  std::vector<int64_t> shape = part.shape;
  if ((part.flags & LF_PART_STACK) != 0) shape.erase(shape.begin());
  if ((part.flags & LF_PART_TRANSPOSE) != 0) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return shape;
}

}  // namespace lf
