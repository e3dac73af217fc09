#include "device.h"

#include <algorithm>
#include <cstdlib>

#include "host_facts.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::cpu {

Device::Device() : total_bytes_(host_memory().total_bytes) {}

void* Device::allocate(uint64_t bytes, int32_t kind) {
  if (kind != LF_MEMORY_MAIN && kind != LF_MEMORY_PINNED_HOST)
    throw sdk::Failure(LF_E_UNSUPPORTED, "cpu: expected memory of kind main or pinned host, got " +
                                             std::to_string(kind) + "; there is no fast memory here");
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  if (bytes <= total_bytes_)
    memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  const std::lock_guard lock(mutex_);
  if (memory == nullptr) {
    ++n_out_of_memory_;
    throw sdk::Failure(LF_E_NOMEM_DEVICE, "cpu: no " + std::to_string(bytes) +
                                              " bytes to be had: " + std::to_string(allocated_) +
                                              " are in use here and the host has " + std::to_string(total_bytes_) +
                                              " in all; shrink the micro-batch or the model");
  }
  try {
    blocks_.emplace(memory, bytes);
  } catch (...) {
    std::free(memory);
    throw;
  }
  ++n_alloc_;
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
  return memory;
}

void Device::release(void* memory) {
  if (memory == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end())
      throw sdk::Failure(LF_E_INVALID,
                         "cpu: expected memory that this device gave out and that is in use, got another address; "
                         "was it freed before?");
    allocated_ -= found->second;
    blocks_.erase(found);
  }
  std::free(memory);
}

lf_memory_stats Device::stats() const {
  const HostMemory host = host_memory();
  lf_memory_stats stats = sdk::with_header<lf_memory_stats>();
  stats.total_bytes = host.total_bytes;
  stats.free_bytes = host.available_bytes;
  const std::lock_guard lock(mutex_);
  stats.allocated_bytes = allocated_;
  stats.peak_bytes = peak_;
  stats.n_alloc = n_alloc_;
  stats.n_out_of_memory = n_out_of_memory_;
  return stats;
}

void Device::require_unused() const {
  const std::lock_guard lock(mutex_);
  if (!blocks_.empty())
    throw sdk::Failure(LF_E_INVALID, "cpu: expected all memory freed before close, got " +
                                         std::to_string(blocks_.size()) + " blocks of " + std::to_string(allocated_) +
                                         " bytes in use; free them first");
}

void Event::record() {
  const std::lock_guard lock(mutex_);
  recorded_ = std::chrono::steady_clock::now();
}

std::chrono::steady_clock::time_point Event::require_time() const {
  const std::lock_guard lock(mutex_);
  if (!timing_) throw sdk::Failure(LF_E_INVALID, "cpu: the event was made without LF_DEVICE_EVENT_TIMING");
  if (!recorded_) throw sdk::Failure(LF_E_NOT_READY, "cpu: the event was never recorded");
  return *recorded_;
}

double Event::milliseconds_until(const Event& later) const {
  return std::chrono::duration<double, std::milli>(later.require_time() - require_time()).count();
}

}  // namespace lf::cpu
