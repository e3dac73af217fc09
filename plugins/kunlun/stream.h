// Streams and events as the host holds them, and copies between the memories of devices and the host's.
#pragma once

#include "device.h"

namespace lf::kunlun {

class Stream {
 public:
  explicit Stream(Device& device) : device_(device), native_(device.create_stream()) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Device& device() const { return device_; }
  XpuStream native() const { return native_; }

 private:
  Device& device_;
  XpuStream native_;
};

class Event {
 public:
  explicit Event(Device& device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Device& device() const { return device_; }
  XpuEvent native() const { return native_; }

  void record(XpuStream stream);
  void make_wait(XpuStream stream, Device& of_stream) const;  // nothing to wait for before the first record
  bool done() const;  // throws LF_E_UNSUPPORTED on runtimes without the query (KL2)
  void wait() const;

 private:
  Device& device_;
  XpuEvent native_ = nullptr;
  std::atomic<bool> recorded_ = false;  // what the vendor says of an event that never was is not known
};

// Between a device and host memory, done on return: where it fails, nothing of it is under way any more, so the caller
// may let go of the host memory. After the default stream's earlier work.
void copy_now(Device& device, void* to, const void* from, uint64_t bytes, CopyKind kind);

// Waits for one stream; null: the default stream of `device`.
void wait_for_stream(Device& device, XpuStream stream);

struct CopyEnd {
  Device* device;  // null: host memory
  void* memory;
};

// Enqueued on `stream` (null: the default stream) of `on`. Between two cards, and within host memory, the runtime has
// no asynchronous copy: those wait for the stream and are done on return.
void copy(CopyEnd to, CopyEnd from, uint64_t bytes, Device* on, XpuStream stream);

}  // namespace lf::kunlun
