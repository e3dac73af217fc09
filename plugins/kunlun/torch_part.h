// The second shared object, compiled with one LibTorch build: found beside the plugin by the build's name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "lf/plugin_api/host.h"
#include "torch_bridge.h"

namespace lf::kunlun {

class TorchPart {
 public:
  explicit TorchPart(const lf_host* host) : host_(host) {}

  // Makes `device` LibTorch's "kunlun". Throws LF_E_UNSUPPORTED naming both builds where no part fits the core's, and
  // LF_E_INVALID when another device was registered before: LibTorch has one such slot in a process.
  void register_device(Device& device, const std::string& torch_build);
  // Operators that ran on the CPU and how often, the most frequent first.
  std::vector<std::pair<std::string, uint64_t>> fallen_operators() const;

 private:
  const lf_host* host_;
  const lf_kunlun_torch* part_ = nullptr;
  Device* registered_ = nullptr;
};

}  // namespace lf::kunlun
