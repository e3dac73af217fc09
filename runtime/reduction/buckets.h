// Units of gradients, and the pieces in which they travel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lf {

// A layer's range of one flat gradient buffer, in elements. Empty ranges (frozen units) are allowed.
struct GradientUnit {
  uint32_t buffer = 0;
  int64_t offset = 0, length = 0;
};

// A contiguous range that can leave when the first `units_needed` units are done.
struct Bucket {
  uint32_t buffer = 0;
  int64_t offset = 0, length = 0;
  uint32_t units_needed = 0;
};

// Cuts units, given in the order in which backward completes them, into buckets of about `elements`: neighbours in
// memory that follow each other in the order share one; a larger unit is cut. Pure: the same on every rank.
std::vector<Bucket> cut_into_buckets(std::span<const GradientUnit> units, int64_t elements);

}  // namespace lf
