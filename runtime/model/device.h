// One opened device of a device plugin, and memory on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lf/plugin_api/device.h"
#include "model/call_watch.h"

namespace lf {

class Device {
 public:
  // Opens ordinal `ordinal`. Throws kUnavailable with the plugin's reason where there is none. With a watch, which
  // outlives the device, a call of the plugin that takes too long throws kUnavailable, or ends the process.
  Device(const lf_device_api* api, const std::string& id, uint32_t ordinal, CallWatch* watch = nullptr);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& id() const { return id_; }
  const lf_device_info& info() const { return info_; }
  lf_device handle() const { return device_; }
  // Its memory is the host's; of others (a card) the host reads and writes nothing but by upload and download.
  bool is_host() const { return info_.uid == 0; }
  // For further calls that compute there; null where nobody watches, and of the host, which computes as long as it
  // does.
  CallWatch* watch() const { return is_host() ? nullptr : watch_; }
  lf_memory_stats memory_stats() const;
  void synchronize() const;
  // Until what is on the default stream is done: what models compute, and nothing that other streams do beside it.
  void wait_for_compute() const;
  // Before the first operator of the process.
  void register_with_torch(const std::string& torch_build, const std::string& torch_library_dir) const;

  // It has streams and events; without them everything is done in order.
  bool has_streams() const;
  // JSON, by the plugin; "{}" where it offers none.
  std::string health() const;

  // Work in order, beside other streams. The device outlives it.
  class Stream {
   public:
    explicit Stream(const Device& device);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    lf_stream handle() const { return handle_; }

   private:
    const Device& device_;
    lf_stream handle_ = nullptr;
  };

  // A place in a stream's work. The device outlives it.
  class Event {
   public:
    explicit Event(const Device& device);
    ~Event();
    Event(Event&& other) noexcept;
    Event& operator=(Event&&) = delete;
    void record(lf_stream stream) const;
    bool passed() const;                      // false where the device cannot tell without waiting
    void wait(bool for_peers = false) const;  // for_peers: behind work that other ranks take part in
    lf_event handle() const { return handle_; }

   private:
    const Device& device_;
    lf_event handle_ = nullptr;
  };

  // A range of the device's profiler on this thread, while the object lives; nothing where the device has none. Ranges
  // end in the opposite order. The device outlives it.
  class Range {
   public:
    Range(const Device& device, std::string_view name);
    ~Range();
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    const Device& device_;
  };

  // Streams: null is the device's default one, where models' operators run. Enqueued, in the order of the stream; host
  // memory that is not pinned may make the call wait. Host memory stays as it is until the copy is done.
  void upload(std::byte* to, const void* from, uint64_t bytes, lf_stream stream) const;
  void download(void* to, const std::byte* from, uint64_t bytes, lf_stream stream) const;
  // The same, done on return, in chunks by way of 16 MiB of pinned memory of their own: a device that fails in the
  // middle of a copy may go on writing, and then no memory of the caller's is concerned.
  void upload_now(std::byte* to, const void* from, uint64_t bytes) const;
  void download_now(void* to, const std::byte* from, uint64_t bytes) const;
  void fill_zero(std::byte* memory, uint64_t bytes, lf_stream stream) const;
  void wait_in(lf_stream stream, const Event& event) const;  // what is enqueued later waits, the host does not

  // Zeroed memory, of the device unless `kind` says otherwise; freed on destruction. The device outlives it.
  class Memory {
   public:
    Memory() = default;
    Memory(const Device& device, uint64_t bytes, int32_t kind = LF_MEMORY_MAIN);
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;
    ~Memory();
    std::byte* data() const { return data_; }
    uint64_t bytes() const { return bytes_; }
    void zero() const;

   private:
    const Device* device_ = nullptr;
    std::byte* data_ = nullptr;
    uint64_t bytes_ = 0;
    int32_t kind_ = LF_MEMORY_MAIN;
  };

 private:
  // One call of the plugin: function(err) gives its code.
  template <typename Function>
  void call(const char* what, const Function& function, bool for_peers = false) const;
  template <typename Function>
  void release(const char* what, const Function& function) const;
  bool has_ranges() const { return LF_HAS(api_, range_push) && LF_HAS(api_, range_pop); }
  template <typename Function>
  int32_t watched(const char* what, lf_err& err, const Function& function, bool for_peers = false) const;

  const lf_device_api* api_;
  std::string id_;
  CallWatch* watch_;
  lf_device device_ = nullptr;
  lf_device_info info_;
};

}  // namespace lf
