// What the plugin holds between start and stop.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "communicator.h"
#include "hardware/holdings.h"
#include "torch_part.h"

namespace lf::kunlun {

class Plugin : public hardware::Holdings<Device, Stream, Event, Communicator> {
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
  // stream of compute, since they may hold each other up. Throws LF_E_INVALID where it is neither 0 nor 1.
  bool collectives_beside_compute() const;
  void log(int32_t level, const std::string& text) const;

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

using Entries = hardware::EntriesOf<Plugin, plugin>;
using hardware::entry;

}  // namespace lf::kunlun
