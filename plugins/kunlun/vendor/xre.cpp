#include "vendor/xre.h"

#include "lf/plugin_sdk/guard.hpp"

namespace lf::kunlun {

Xre::Xre(const hardware::Library& library, const std::filesystem::path& root) {
  std::string missing;
  const auto need = [&](const char* symbol, auto& function) {
    if (!library.find(symbol, function, root)) missing += missing.empty() ? symbol : std::string(", ") + symbol;
  };
  need("xpu_get_driver_version", get_driver_version);
  need("xpu_get_runtime_version", get_runtime_version);
  need("xpu_device_count", device_count);
  need("xpu_set_device", set_device);
  need("xpu_current_device", current_device);
  need("xpu_device_get_attr", device_get_attr);
  need("xpu_malloc", malloc);
  need("xpu_free", free);
  need("xpu_host_alloc", host_alloc);
  need("xpu_host_free", host_free);
  need("xpu_memcpy", memcpy);
  need("xpu_memcpy_async", memcpy_async);
  need("xpu_stream_create", stream_create);
  need("xpu_stream_destroy", stream_destroy);
  need("xpu_stream_wait_event", stream_wait_event);
  need("xpu_wait", wait);
  need("xpu_event_create", event_create);
  need("xpu_event_destroy", event_destroy);
  need("xpu_event_record", event_record);
  need("xpu_event_wait", event_wait);
  if (!missing.empty())
    throw sdk::Failure(LF_E_UNSUPPORTED,
                       library.path().string() + " lacks " + missing + ": it is no runtime that this plugin can drive");
  library.find("xpu_event_query", event_query, root);
  library.find("xpu_memcpy_peer", memcpy_peer, root);
  library.find("xpu_mmap", mmap, root);
  library.find("xpu_device_list", device_list, root);
  library.find("lf_simulated_runtime", simulated, root);
}

}  // namespace lf::kunlun
