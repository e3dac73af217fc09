// Local search: the most loaded bin gives work to lightly loaded ones, one exchange at a time.
#pragma once

#include <cstdint>
#include <span>

#include "planning/deal.h"
#include "planning/packing.h"

namespace lf::planning {

// Other work of the same samples that must not grow beyond `most` ticks in any bin.
struct Guard {
  std::span<const int64_t> weight;  // per sample
  int64_t most = 0;
};

struct Refining {
  Bins bins;
  std::span<const int64_t> weight;   // per sample: what is levelled
  std::span<const double> slowness;  // per bin; empty: all equal
  int64_t base = 0;                  // of every bin, besides its samples
  int64_t target = 0;                // stop once no bin's time is above it
  int32_t most_steps = 0;
  // Prefer exchanges that move little: of those that bring the bin to the target the one with the least amount (by the
  // first limit) away from its arrival, else the one with the most gained for it.
  bool thrifty = false;
  double thrift = 1;  // what "gained for it" means: gain over the amount to the power of 0, 0.5, 1 or 2
  std::span<const Guard> guards;
};

// Moves a sample, or exchanges two, between the most loaded bin and one of the least loaded, within limits, never
// leaving a slot empty, as long as that lowers the most loaded bin. Returns the time of the most loaded bin. All
// samples of the bins must be placed.
int64_t refine(Packing& packing, const Refining& refining);

}  // namespace lf::planning
