// What chance decides for a sample: a pure function of (seed, sample, epoch), so that ranks, micro-batches and resumed
// runs change nothing.
#pragma once

#include <cstdint>
#include <vector>

namespace lf::diffusion {

// Each purpose has a stream of its own: more noise never moves the time.
enum class Purpose : uint64_t { kLevel = 1, kTextDropout, kFirstFrame, kNoise };

class Draws {
 public:
  Draws(uint64_t seed, uint64_t sample, uint64_t epoch) : seed_(seed), sample_(sample), epoch_(epoch) {}

  // In [0, 1).
  double uniform(Purpose purpose) const;
  // n standard normal numbers (Box-Muller).
  std::vector<float> normal(Purpose purpose, int64_t n) const;

 private:
  uint64_t bits(Purpose purpose, uint64_t index) const;

  uint64_t seed_, sample_, epoch_;
};

}  // namespace lf::diffusion
