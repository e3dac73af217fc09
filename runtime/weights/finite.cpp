#include "weights/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "mesh/slices.h"

namespace lf {
namespace {

constexpr uint32_t kExponent = 0x7f800000u;  // all ones: NaN or infinite
constexpr size_t kBlock = 4096;              // looked at without a branch, so that the loop is vectorised

}  // namespace

std::optional<int64_t> first_not_finite(std::span<const float> values) {
  for (size_t block = 0; block < values.size(); block += kBlock) {
    const size_t end = std::min(values.size(), block + kBlock);
    uint32_t bad = 0;
    for (size_t i = block; i < end; ++i)
      bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent);
    if (bad == 0) continue;
    for (size_t i = block; i < end; ++i)
      if (!std::isfinite(values[i])) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

void refuse_not_finite(const std::string& place, const std::string& tensor, float value) {
  fail(Exit::kBadData, "{}: tensor {}: expected finite values, got {} among them; fetch the weights again", place,
       tensor, value);
}

void require_finite(const std::string& place, const ParameterInfo& parameter, std::span<const float> values) {
  const std::optional<int64_t> first = first_not_finite(values);
  if (!first) return;
  const auto stride = strides_of(parameter.shape);
  Box at = whole(parameter.shape);
  int64_t rest = *first;
  for (int axis = 0; axis < at.ndim; ++axis) {
    at.begin[axis] = rest / stride[axis];
    at.end[axis] = at.begin[axis] + 1;
    rest %= stride[axis];
  }
  std::string name = parameter.name;
  for (const Fragment& fragment : fragments(parameter, at))
    name = file_tensor_name(parameter.parts[static_cast<size_t>(fragment.part)], fragment.index);
  refuse_not_finite(place, name, values[static_cast<size_t>(*first)]);
}

}  // namespace lf
