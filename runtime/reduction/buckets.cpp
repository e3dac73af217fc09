#include "reduction/buckets.h"

#include <algorithm>

namespace lf {
namespace {

// Grows `bucket` by a unit that touches it on either side.
bool joined(Bucket& bucket, const GradientUnit& unit, int64_t elements) {
  if (bucket.buffer != unit.buffer || bucket.length + unit.length > elements) return false;
  const bool below = unit.offset + unit.length == bucket.offset;
  const bool above = bucket.offset + bucket.length == unit.offset;
  if (!below && !above) return false;
  bucket.offset = std::min(bucket.offset, unit.offset);
  bucket.length += unit.length;
  return true;
}

}  // namespace

std::vector<Bucket> cut_into_buckets(std::span<const GradientUnit> units, int64_t elements) {
  std::vector<Bucket> buckets;
  for (uint32_t i = 0; i < units.size(); ++i) {
    const GradientUnit& unit = units[i];
    if (unit.length == 0) continue;
    if (!buckets.empty() && joined(buckets.back(), unit, elements)) {
      buckets.back().units_needed = i + 1;
      continue;
    }
    const int64_t pieces = (unit.length + elements - 1) / elements;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t begin = unit.length * piece / pieces, end = unit.length * (piece + 1) / pieces;
      buckets.push_back({unit.buffer, unit.offset + begin, end - begin, i + 1});
    }
  }
  return buckets;
}

}  // namespace lf
