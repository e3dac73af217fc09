// Devices, streams and events as LibTorch asks for them: one stream, on which everything is done when a call returns.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "torch/bridge.h"
#include "torch/registrations.h"

namespace lf::kunlun {
namespace {

thread_local c10::DeviceIndex current = -1;  // -1: the registered one

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device getDevice() const override { return current < 0 ? bridge().device() : c10::Device(type(), current); }
  void setDevice(c10::Device device) const override { current = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(bridge().device_count());
  }

  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, resolved(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  bool queryStream(const c10::Stream&) const override {
    bridge().settle();
    return true;
  }
  void synchronizeStream(const c10::Stream&) const override { bridge().settle(); }
  void synchronizeDevice(c10::DeviceIndex) const override { bridge().synchronize(); }

  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override { *event = nullptr; }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { bridge().settle(); }

 private:
  c10::Device resolved(c10::Device device) const { return device.has_index() ? device : getDevice(); }
};

}  // namespace

void register_guard() {
  c10::impl::DeviceGuardImplRegistrar(c10::DeviceType::PrivateUse1, new Guard);  // for the life of the process
}

}  // namespace lf::kunlun
