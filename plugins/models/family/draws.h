// What chance decides for a sample: a pure function of (seed, sample, epoch), so that ranks, micro-batches and resumed
// runs change nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace lf::family {

// Each purpose, a number of the family's, has a stream of its own: more noise never moves the time.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t sample, uint64_t epoch) : seed_(seed), sample_(sample), epoch_(epoch) {}

  // In [0, 1).
  double uniform(uint64_t purpose) const;
  // n standard normal numbers (Box-Muller).
  std::vector<float> normal(uint64_t purpose, int64_t n) const;

 private:
  uint64_t bits(uint64_t purpose, uint64_t index) const;

  uint64_t seed_, sample_, epoch_;
};

}  // namespace lf::family
