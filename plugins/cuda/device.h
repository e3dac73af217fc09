// One opened GPU: its memory, streams and events.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lf/plugin_api/device.h"
#include "runtime.h"

namespace lf::cuda {

class Device {
 public:
  // The runtime outlives it.
  Device(const Runtime& runtime, int ordinal);
  ~Device();  // frees what is still allocated
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Runtime& runtime() const { return runtime_; }
  int ordinal() const { return ordinal_; }
  void describe(lf_device_info& info) const;
  std::string health() const;  // JSON

  void* allocate(uint64_t bytes, int32_t kind);
  void release(void* memory);
  lf_memory_stats stats() const;

 private:
  struct Block {
    uint64_t bytes;
    int32_t kind;
  };
  void free_block(void* memory, const Block& block) const;

  const Runtime& runtime_;
  const int ordinal_;
  int device_count_ = 0;
  cudaDeviceProp properties_{};
  char bus_[24] = {};
  mutable std::mutex mutex_;
  std::map<void*, Block> blocks_;
  lf_memory_stats counters_{};
};

class Stream {
 public:
  Stream(Device& device, int32_t priority);  // larger is sooner; clamped to what the device has
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Device& device() const { return device_; }
  cudaStream_t native() const { return native_; }

 private:
  Device& device_;
  cudaStream_t native_ = nullptr;
};

class Event {
 public:
  explicit Event(Device& device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Device& device() const { return device_; }
  cudaEvent_t native() const { return native_; }
  void record(cudaStream_t stream);
  bool done() const;
  void wait() const;
  double milliseconds_until(const Event& later) const;

 private:
  Device& device_;
  cudaEvent_t native_ = nullptr;
};

struct CopyEnd {
  Device* device;  // null: host memory
  void* memory;
};

// Enqueued on `stream` of `on`; within host memory it waits for the stream and is done on return.
void copy(CopyEnd to, CopyEnd from, uint64_t bytes, Device* on, cudaStream_t stream);

}  // namespace lf::cuda
