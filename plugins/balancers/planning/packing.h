// Which slot each sample is in, and what room is left there.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/problem.h"

namespace lf::planning {

class Packing {
 public:
  static constexpr int32_t kNowhere = -1;

  explicit Packing(const Problem& problem);

  const Problem& problem() const { return *problem_; }
  int32_t slot(uint32_t sample) const { return slot_[sample]; }
  int32_t replica(uint32_t sample) const { return slot_[sample] / problem_->micro_batches; }
  int32_t count(int32_t slot) const { return count_[slot]; }
  // Of the first limit, the one that is used most.
  int64_t room(int32_t slot) const { return room_[static_cast<size_t>(slot) * n_limits_]; }
  const std::vector<int32_t>& slots() const { return slot_; }

  bool fits(uint32_t sample, int32_t slot) const {
    const int64_t* amount = amount_ + static_cast<size_t>(sample) * n_limits_;
    const int64_t* room = room_.data() + static_cast<size_t>(slot) * n_limits_;
    for (int32_t l = 0; l < n_limits_; ++l)
      if (amount[l] > room[l]) return false;
    return true;
  }
  // Whether `in` fits where `out` is now.
  bool fits_instead(uint32_t in, uint32_t out) const {
    const int64_t* more = amount_ + static_cast<size_t>(in) * n_limits_;
    const int64_t* less = amount_ + static_cast<size_t>(out) * n_limits_;
    const int64_t* room = room_.data() + static_cast<size_t>(slot_[out]) * n_limits_;
    for (int32_t l = 0; l < n_limits_; ++l)
      if (more[l] - less[l] > room[l]) return false;
    return true;
  }

  void put(uint32_t sample, int32_t slot) {
    slot_[sample] = slot;
    ++count_[slot];
    const int64_t* amount = amount_ + static_cast<size_t>(sample) * n_limits_;
    int64_t* room = room_.data() + static_cast<size_t>(slot) * n_limits_;
    for (int32_t l = 0; l < n_limits_; ++l) room[l] -= amount[l];
  }
  void take(uint32_t sample) {
    const int32_t slot = slot_[sample];
    slot_[sample] = kNowhere;
    --count_[slot];
    for (int32_t l = 0; l < n_limits_; ++l)
      room_[static_cast<size_t>(slot) * n_limits_ + l] += amount_[static_cast<size_t>(sample) * n_limits_ + l];
  }

  // A hint that put() of this sample comes soon.
  void fetch(uint32_t sample, std::span<const int64_t> weight) const {
    __builtin_prefetch(&weight[sample]);
    __builtin_prefetch(amount_ + static_cast<size_t>(sample) * n_limits_);
    __builtin_prefetch(&slot_[sample], 1);
  }
  bool overfull(int32_t slot) const {
    const int64_t* room = room_.data() + static_cast<size_t>(slot) * n_limits_;
    for (int32_t l = 0; l < n_limits_; ++l)
      if (room[l] < 0) return true;
    return false;
  }
  bool within_limits() const;
  // All samples somewhere, within limits, and no slot empty that need not be.
  bool complete() const;

 private:
  const Problem* problem_;
  int32_t n_limits_;
  const int64_t* amount_;
  std::vector<int32_t> slot_, count_;
  std::vector<int64_t> room_;  // by slot, then limit
};

// Where everything would go without a plan.
Packing arrival_packing(const Problem& problem);

// Ticks by slot.
std::vector<int64_t> slot_costs(const Packing& packing);

}  // namespace lf::planning
