// Weights that are no numbers.
#pragma once

#include <optional>
#include <span>

#include "mesh/parameter.h"

namespace lf {

// Index of the first value that is NaN or infinite; none where all are finite. Reads 10 GB/s and more (one core).
std::optional<int64_t> first_not_finite(std::span<const float> values);

// Throws kBadData: the tensor holds such a value.
[[noreturn]] void refuse_not_finite(const std::string& place, const std::string& tensor, float value);

// Throws kBadData naming the file tensor in which such a value was found. `values`: of the whole parameter.
void require_finite(const std::string& place, const ParameterInfo& parameter, std::span<const float> values);

}  // namespace lf
