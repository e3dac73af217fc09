// What the plugin holds between start and stop.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "communicator.h"
#include "hardware/handle_table.h"

namespace lf::cuda {

class Plugin {
 public:
  Plugin(const lf_host* host, Environment environment) : host_(host), environment_(std::move(environment)) {}
  ~Plugin();

  // The number of GPUs, and where it is 0 the driver's reason. Never hangs and never throws for a machine without GPUs.
  uint32_t probe(std::string& reason);
  std::shared_ptr<const Runtime> runtime();  // opens it on first use
  const Nccl& nccl();
  void register_with_torch(const std::filesystem::path& library_dir, const std::string& build);

  void close(lf_device handle);  // with all that was made on it
  // A null stream is the default stream of the only open device; with several open devices it needs one named.
  Device& device_of(lf_stream stream, Device* named) const;

  hardware::HandleTable<Device> devices{"cuda device"};
  hardware::HandleTable<Stream> streams{"cuda stream"};
  hardware::HandleTable<Event> events{"cuda event"};
  hardware::HandleTable<Communicator> communicators{"cuda communicator"};

 private:
  void log(int32_t level, const std::string& text) const;
  const lf_host* host_;
  Environment environment_;
  std::mutex mutex_;
  std::shared_ptr<const Runtime> runtime_;
  std::optional<Nccl> nccl_;
  std::filesystem::path torch_site_;
};

// The tables of the ABI carry no context in probe, open and new_id, so the one instance is found here. Throws
// LF_E_INVALID before start and after stop.
Plugin& plugin();

extern const lf_device_api kDeviceTable;
extern const lf_collective_api kCollectiveTable;

// The body of an entry: exceptions become codes, and NVIDIA's own code is kept beside ours.
template <typename Body>
int32_t entry(lf_err* err, Body&& body) noexcept {
  if (err != nullptr) err->native = err->domain[0] = 0;
  return sdk::guard(err, [&] {
    try {
      body();
    } catch (const CudaFailure& failure) {
      if (err != nullptr) {
        err->native = failure.native();
        std::snprintf(err->domain, sizeof err->domain, "%s", failure.domain());
      }
      throw;
    }
  });
}

inline cudaStream_t native(const Plugin& plugin, lf_stream stream) {
  return stream == nullptr ? nullptr : plugin.streams.find(stream).native();
}

// What the tables of hardware/ need to know of this plugin.
struct Entries {
  using Device = cuda::Device;
  using Event = cuda::Event;
  static Plugin& plugin() { return cuda::plugin(); }
  template <typename Body>
  static int32_t entry(lf_err* err, Body&& body) noexcept {
    return cuda::entry(err, std::forward<Body>(body));
  }
  static cudaStream_t native(lf_stream stream) { return cuda::native(plugin(), stream); }
};

}  // namespace lf::cuda
