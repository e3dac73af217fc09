// The host as a device: memory with statistics, and events that are a reading of the clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "lf/plugin_api/device.h"

namespace lf::cpu {

inline constexpr uint64_t kAlignment = 64;  // a cache line, and the widest vector register

// Safe from any thread. Throws sdk::Failure.
class Device {
 public:
  Device();

  // At least `bytes`, aligned to kAlignment, not cleared. Zero bytes: null.
  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* memory);  // refuses an address that is not in use; null is nothing
  lf_memory_stats stats() const;
  void require_unused() const;  // no block in use

 private:
  const uint64_t total_bytes_;  // reading it costs more than an allocation
  mutable std::mutex mutex_;
  std::unordered_map<void*, uint64_t> blocks_;
  uint64_t allocated_ = 0, peak_ = 0, n_alloc_ = 0, n_out_of_memory_ = 0;
};

// Work on a stream is done before the call that asks for it returns: a stream is only a name for an order.
struct Stream {};

class Event {
 public:
  explicit Event(bool timing) : timing_(timing) {}
  void record();
  double milliseconds_until(const Event& later) const;  // refused unless both are for timing and recorded

 private:
  std::chrono::steady_clock::time_point require_time() const;

  const bool timing_;
  mutable std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> recorded_;
};

}  // namespace lf::cpu
