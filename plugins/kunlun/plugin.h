// What the plugin holds between start and stop.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "communicator.h"
#include "hardware/handle_table.h"
#include "torch_part.h"

namespace lf::kunlun {

class Plugin {
 public:
  Plugin(const lf_host* host, Environment environment);
  ~Plugin();

  // The number of cards, and where it is 0 the reason. Never hangs and never throws for a machine without cards.
  uint32_t probe(std::string& reason);
  // Opens the vendor's libraries on first use; throws LF_E_NO_DEVICE with what was searched.
  std::shared_ptr<const Runtime> runtime();
  const Bkcl& bkcl();
  TorchPart& torch() { return torch_; }
  // LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE=1: on a stream of their own. Users of the vendor's library keep them on the
  // stream of compute, since they may hold each other up.
  bool collectives_beside_compute() const {
    return environment_("LF_KUNLUN_COLLECTIVES_BESIDE_COMPUTE").value_or("") == "1";
  }
  void log(int32_t level, const std::string& text) const;

  void close(lf_device handle);  // with all that was made on it
  // A null stream is the default stream of the only open device; with several open devices it needs one named.
  Device& device_of(lf_stream stream, Device* named) const;

  hardware::HandleTable<Device> devices{"kunlun device"};
  hardware::HandleTable<Stream> streams{"kunlun stream"};
  hardware::HandleTable<Event> events{"kunlun event"};
  hardware::HandleTable<Communicator> communicators{"kunlun communicator"};

 private:
  const lf_host* host_;
  Environment environment_;
  std::mutex mutex_;
  std::shared_ptr<const Runtime> runtime_;
  std::optional<Bkcl> bkcl_;
  TorchPart torch_;
};

// The tables of the ABI carry no context in probe, open and new_id, so the one instance is found here. Throws
// LF_E_INVALID before start and after stop.
Plugin& plugin();

extern const lf_device_api kDeviceTable;
extern const lf_collective_api kCollectiveTable;

// The body of an entry: exceptions become codes, and the vendor's own code is kept beside ours.
template <typename Body>
int32_t entry(lf_err* err, Body&& body) noexcept {
  if (err != nullptr) err->native = err->domain[0] = 0;
  return sdk::guard(err, [&] {
    try {
      body();
    } catch (const VendorFailure& failure) {
      if (err != nullptr) {
        err->native = failure.native();
        std::snprintf(err->domain, sizeof err->domain, "%s", "xre");
      }
      throw;
    }
  });
}

inline XpuStream native(const Plugin& plugin, lf_stream stream) {
  return stream == nullptr ? nullptr : plugin.streams.find(stream).native();
}

// What the tables of hardware/ need to know of this plugin.
struct Entries {
  using Device = kunlun::Device;
  using Event = kunlun::Event;
  static Plugin& plugin() { return kunlun::plugin(); }
  template <typename Body>
  static int32_t entry(lf_err* err, Body&& body) noexcept {
    return kunlun::entry(err, std::forward<Body>(body));
  }
  static XpuStream native(lf_stream stream) { return kunlun::native(plugin(), stream); }
};

}  // namespace lf::kunlun
