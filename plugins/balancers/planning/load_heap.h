// The least loaded of a few thousand bins, updated as it gets more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lf::planning {

// A binary heap of (load, bin) in one word: ties go to the lower bin, so the order of insertion does not matter.
class LoadHeap {
 public:
  static constexpr int kBinBits = 20;
  static constexpr int64_t kMostLoad = int64_t{1} << 43;  // heavier ones count as this

  void clear() { words_.clear(); }
  bool empty() const { return words_.empty(); }
  size_t size() const { return words_.size(); }
  int32_t bin() const { return static_cast<int32_t>(words_.front() & ((1u << kBinBits) - 1)); }
  int64_t load() const { return static_cast<int64_t>(words_.front() >> kBinBits); }

  void push(int64_t load, int32_t bin) {
    words_.push_back(word(load, bin));
    std::push_heap(words_.begin(), words_.end(), std::greater<>{});
  }
  void pop() {
    std::pop_heap(words_.begin(), words_.end(), std::greater<>{});
    words_.pop_back();
  }
  // The least loaded bin now has this load.
  void replace(int64_t load) {
    const uint64_t moved = word(load, bin());
    const size_t n = words_.size();
    size_t hole = 0;
    for (size_t child = 1; child < n; child = 2 * hole + 1) {
      child += child + 1 < n && words_[child + 1] < words_[child];
      if (moved <= words_[child]) break;
      words_[hole] = words_[child];
      hole = child;
    }
    words_[hole] = moved;
  }

 private:
  static uint64_t word(int64_t load, int32_t bin) {
    return static_cast<uint64_t>(std::min(load, kMostLoad)) << kBinBits | static_cast<uint32_t>(bin);
  }
  std::vector<uint64_t> words_;
};

}  // namespace lf::planning
