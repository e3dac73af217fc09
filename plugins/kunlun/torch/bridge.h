// The plugin's device as this part sees it: C calls that throw LibTorch's errors.
#pragma once

#include <c10/core/Device.h>

#include "torch_bridge.h"

namespace lf::kunlun {

class Bridge {
 public:
  explicit Bridge(const lf_kunlun_device& device) : device_(device) {}

  c10::Device device() const { return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device_.ordinal)}; }
  int device_count() const { return device_.device_count; }
  bool host_visible() const { return device_.host_visible != 0; }
  bool may_fall_back() const { return device_.fallback == LF_KUNLUN_FALLBACK_WARN; }

  void* allocate(uint64_t bytes) const;  // throws c10::OutOfMemoryError
  void release(void* memory) const;
  void* host_view(const void* memory, uint64_t bytes) const;  // null for no bytes
  void to_device(void* memory, const void* host, uint64_t bytes) const;
  void from_device(void* host, const void* memory, uint64_t bytes) const;
  void on_device(void* to, const void* from, uint64_t bytes) const;
  void settle() const;  // before the host touches device memory
  void synchronize() const;

 private:
  lf_kunlun_device device_;
};

// LibTorch keeps its one PrivateUse1 device in globals, and its callbacks carry no context of ours; so this is one too.
const Bridge& bridge();
void set_bridge(const lf_kunlun_device& device);

}  // namespace lf::kunlun
