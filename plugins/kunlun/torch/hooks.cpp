// What LibTorch's device-independent code asks of an accelerator. Random numbers of operators that run on the CPU come
// from the CPU's generator, whatever the device: so that one is the device's, and a seed means the same on both.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "torch/bridge.h"
#include "torch/registrations.h"
#include "torch/storage.h"

namespace lf::kunlun {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return index == bridge().device().index(); }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(bridge().device_count()); }
  c10::DeviceIndex getCurrentDevice() const override { return bridge().device().index(); }
  at::Device getDeviceFromPtr(void*) const override { return bridge().device(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void register_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

}  // namespace lf::kunlun
