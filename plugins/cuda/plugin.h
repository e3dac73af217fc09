// What the plugin holds between start and stop.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "communicator.h"
#include "hardware/holdings.h"

namespace lf::cuda {

class Plugin : public hardware::Holdings<Device, Stream, Event, Communicator> {
 public:
  Plugin(const lf_host* host, Environment environment)
      : Holdings("cuda"), host_(host), environment_(std::move(environment)) {}
  ~Plugin() { close_all(); }

  // The number of GPUs, and where it is 0 the driver's reason. Never hangs and never throws for a machine without GPUs.
  uint32_t probe(std::string& reason);
  std::shared_ptr<const Runtime> runtime();  // opens it on first use
  const Nccl& nccl();
  void register_with_torch(const std::filesystem::path& library_dir, const std::string& build);

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

using Entries = hardware::EntriesOf<Plugin, plugin>;
using hardware::entry;

}  // namespace lf::cuda
