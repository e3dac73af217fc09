#include "torch/memory_pool.h"

#include <algorithm>
#include <bit>

#include <c10/util/Exception.h>

#include "torch/bridge.h"

namespace lf::kunlun {
namespace {

// Up to an eighth is given away, so that tensors of nearly one size share blocks.
uint64_t rounded(uint64_t bytes) {
  constexpr uint64_t kSmallest = 512;
  if (bytes <= kSmallest) return kSmallest;
  const uint64_t step = std::max<uint64_t>(std::bit_floor(bytes - 1) / 8, 256);
  return (bytes + step - 1) / step * step;
}

}  // namespace

MemoryPool& pool() {
  static auto* const pool = new MemoryPool;  // tensors may outlive everything else of the process
  return *pool;
}

void* MemoryPool::allocate(uint64_t bytes) {
  if (bytes == 0) return nullptr;
  const uint64_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  void* memory = nullptr;
  if (auto& kept = kept_[size]; !kept.empty()) {
    memory = kept.back();
    kept.pop_back();
  } else {
    try {
      memory = bridge().allocate(size);
    } catch (const c10::OutOfMemoryError&) {
      drop_kept_locked();
      memory = bridge().allocate(size);
    }
    blocks_[memory] = {size, bridge().host_visible() ? bridge().host_view(memory, size) : nullptr};
    stats_.reserved += static_cast<int64_t>(size);
  }
  const Block& block = blocks_.at(memory);
  if (block.host != nullptr) by_host_[block.host] = memory;
  stats_.allocated += static_cast<int64_t>(size);
  stats_.peak = std::max(stats_.peak, stats_.allocated);
  ++stats_.n_alloc;
  return memory;
}

void MemoryPool::release(void* memory) {
  if (memory == nullptr) return;
  const std::lock_guard lock(mutex_);
  const Block& block = blocks_.at(memory);
  if (block.host != nullptr) by_host_.erase(block.host);
  kept_[block.bytes].push_back(memory);
  stats_.allocated -= static_cast<int64_t>(block.bytes);
  ++stats_.n_free;
}

void MemoryPool::drop_kept() {
  const std::lock_guard lock(mutex_);
  drop_kept_locked();
}

void MemoryPool::drop_kept_locked() {
  for (auto& [size, kept] : kept_) {
    for (void* memory : kept) {
      blocks_.erase(memory);
      stats_.reserved -= static_cast<int64_t>(size);
      bridge().release(memory);
    }
    kept.clear();
  }
}

PoolStats MemoryPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.allocated;
}

void* MemoryPool::device_address(const void* host) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_host_.find(host);
  return found == by_host_.end() ? nullptr : found->second;
}

void* MemoryPool::host_address(const void* memory) const {
  const std::lock_guard lock(mutex_);
  return blocks_.at(memory).host;
}

}  // namespace lf::kunlun
