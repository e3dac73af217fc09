// What a sample is in numbers.
#pragma once

#include <vector>

namespace lf::family {

// For each component, row-major, one row of numbers per atom.
using Features = std::vector<std::vector<double>>;

}  // namespace lf::family
