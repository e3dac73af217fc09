// Greedy placing: samples from the heaviest to the lightest, each to the least loaded bin that has room (Graham 1969,
// "Bounds on multiprocessing timing anomalies": longest processing time first), here under hard limits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "planning/packing.h"

namespace lf::planning {

// Bins of equal width: bin b has the slots first_slot + b * width to first_slot + (b + 1) * width.
struct Bins {
  int32_t first_slot = 0, count = 0, width = 1;
};

struct Dealing {
  Bins bins;
  std::span<const int64_t> weight;                      // per sample: what is levelled
  std::span<const double> slowness;                     // per bin; empty: all equal
  int64_t level = std::numeric_limits<int64_t>::max();  // no bin's time goes above it
};

// Places the samples of `order`, which is heaviest first by `weight`; `load` has the weight in every bin, and is
// updated. In a bin, a sample goes to the slot with the most room. Samples for which no bin was found are appended to
// `left`: only the least loaded few bins are tried, so one that fits may exist.
void deal(Packing& packing, const Dealing& dealing, std::span<const uint32_t> order, std::vector<int64_t>& load,
          std::vector<uint32_t>& left);

}  // namespace lf::planning
