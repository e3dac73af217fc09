// kunlun_torch_<build>.so: makes LibTorch know the device "kunlun". Compiled with one build of LibTorch, for that one
// only.
#include <c10/core/DeviceType.h>

#include "lf/plugin_sdk/guard.hpp"
#include "torch/allocators.h"
#include "torch/bridge.h"
#include "torch/fallen_operators.h"
#include "torch/registrations.h"

namespace {

int32_t register_device(const lf_kunlun_device* device, lf_err* err) {
  return lf::sdk::guard(err, [&] {
    if (device->size != sizeof *device)
      throw lf::sdk::Failure(LF_E_ABI, "kunlun: the plugin and its torch part differ in version");
    if (c10::is_privateuse1_backend_registered())
      throw lf::sdk::Failure(LF_E_INVALID, "kunlun: LibTorch's slot for a device of its kind is taken by \"" +
                                               c10::get_privateuse1_backend() + "\"; one process serves one");
    lf::kunlun::set_bridge(*device);
    c10::register_privateuse1_backend("kunlun");
    lf::kunlun::register_allocators();
    lf::kunlun::register_guard();
    lf::kunlun::register_hooks();
    lf::kunlun::register_operators();
    lf::kunlun::register_fallback();
    lf::kunlun::register_attention();
  });
}

int32_t report(lf_sink text, lf_err* err) {
  return lf::sdk::guard(err, [&] { lf::sdk::put(text, lf::kunlun::fallen_operators().report()); });
}

const lf_kunlun_torch kPart = {sizeof(lf_kunlun_torch), LF_TORCH_BUILD, register_device, report};

}  // namespace

extern "C" LF_EXPORT const lf_kunlun_torch* lf_kunlun_torch_entry(void) { return &kPart; }
