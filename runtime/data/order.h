// The endless order in which a run sees its data set: epoch after epoch, each a permutation of its own.
#pragma once

#include <cstdint>

namespace lf {

// A pure function of the seed: no state, no memory, so any position is reached at once and all ranks agree.
//
// Each epoch is the swap-or-not shuffle (Hoang, Morris, Rogaway: An Enciphering Scheme Based on a Card Shuffle, CRYPTO
// 2012) over [0, size): in every round x is paired with key - x mod size, and a hash of the pair decides whether the
// two swap. It is a bijection for any size, without walking cycles, and 96 rounds mix more than 2^40 samples well
// beyond what statistics can see.
class Order {
 public:
  // size > 0. Without shuffle every epoch is 0, 1, 2, ...
  Order(uint64_t size, uint64_t seed, bool shuffle);

  uint64_t size() const { return size_; }
  uint64_t epoch(uint64_t position) const { return position / size_; }
  // Index in the data set of what the run sees at `position`.
  uint64_t at(uint64_t position) const;

 private:
  uint64_t size_, seed_;
  bool shuffle_;
};

}  // namespace lf
