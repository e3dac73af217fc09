// Samples from heaviest to lightest, in linear time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lf::planning {

// Indices of `keys` (all >= 0), largest first; equal ones by index. Keys are compared by their 22 highest bits below
// the largest key's, which is finer than any plan needs, so that two passes of a radix sort do.
std::vector<uint32_t> heaviest_first(std::span<const int64_t> keys);

// The same for the chosen indices only.
std::vector<uint32_t> heaviest_first(std::span<const int64_t> keys, std::span<const uint32_t> chosen);

}  // namespace lf::planning
