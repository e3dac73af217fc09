// One opened card: its memory, its streams, and what it can do.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>

#include "lf/plugin_api/device.h"
#include "vendor/runtime.h"

namespace lf::kunlun {

constexpr uint64_t kAlignment = 64;  // what is promised; oneDNN's and MKL's results may depend on less

class Device {
 public:
  // The runtime outlives it. Throws VendorFailure (LF_E_NO_DEVICE where the ordinal is too large).
  Device(const Runtime& runtime, int ordinal);
  ~Device();  // frees what is still allocated
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Runtime& runtime() const { return runtime_; }
  int ordinal() const { return ordinal_; }
  int count() const { return device_count_; }  // that this process sees
  void describe(lf_device_info& info) const;
  std::string health() const;  // JSON

  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* memory);  // waits for work under way first, as nothing else keeps streams off the memory
  lf_memory_stats stats() const;
  bool owns(const void* memory) const;
  // Where the host sees the bytes of device memory; null where it cannot.
  void* host_view(const void* memory, uint64_t bytes) const;
  bool host_visible() const { return allocation_kind_ == kMemoryMappable; }

  // Native streams are known to the device, for there is no vendor call that waits for all of them.
  XpuStream create_stream();
  void destroy_stream(XpuStream stream);
  void synchronize() const;
  // Told by whoever enqueues work; null: the default stream. settle() waits for the default stream if there may be any.
  void note_work(XpuStream stream) const;
  void settle() const;

  // Enqueued on `stream`; the bytes come from `chunk_of(value)`, which is never written again, then double on the card.
  void fill(void* memory, uint8_t value, uint64_t bytes, XpuStream stream);

 private:
  struct Block {
    uint64_t bytes;
    int32_t kind;
    void* host;  // null: not visible
  };
  std::map<const void*, Block>::const_iterator block_of(const void* memory, uint64_t bytes) const;
  void wait_for_all() const;
  const void* chunk_of(uint8_t value);
  void free_block(void* memory, const Block& block) const;

  const Runtime& runtime_;
  const int ordinal_;
  uint64_t model_ = 0, main_bytes_ = 0, l3_bytes_ = 0;
  PciAddress pci_{};
  MemoryKind allocation_kind_ = kMemoryMain;
  int device_count_ = 0;

  mutable std::shared_mutex memory_mutex_;
  std::map<const void*, Block> blocks_;
  lf_memory_stats counters_{};

  mutable std::shared_mutex stream_mutex_;  // shared while waiting, so that no stream goes away under it
  std::set<XpuStream> streams_;
  mutable std::mutex settling_;                                           // of whoever waits for work and clears these
  mutable std::atomic<bool> busy_ = false, default_stream_busy_ = false;  // since the last wait

  std::mutex chunk_mutex_;
  std::map<uint8_t, void*> chunks_;
};

}  // namespace lf::kunlun
