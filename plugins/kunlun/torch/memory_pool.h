// Device memory for tensors, kept for the next one of its size. Operators here are done when they return, so memory may
// change hands at once; the plugin's own release would wait for every stream, collectives under way included.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace lf::kunlun {

struct PoolStats {
  int64_t allocated = 0, peak = 0, reserved = 0, n_alloc = 0, n_free = 0;  // bytes, then counts
};

class MemoryPool {
 public:
  void* allocate(uint64_t bytes);  // null for no bytes. Lets go of what is kept before it gives up
  void release(void* memory);      // null: nothing
  void drop_kept();                // back to the device
  PoolStats stats() const;
  void reset_peak();

  // By the address under which the host sees it; null: none of ours.
  void* device_address(const void* host) const;
  void* host_address(const void* memory) const;  // of the start of a block

 private:
  struct Block {
    uint64_t bytes;
    void* host;
  };
  void drop_kept_locked();

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;          // in use and kept, by device address
  std::unordered_map<const void*, void*> by_host_;         // in use
  std::unordered_map<uint64_t, std::vector<void*>> kept_;  // by size
  PoolStats stats_;
};

MemoryPool& pool();

}  // namespace lf::kunlun
