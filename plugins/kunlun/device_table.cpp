// The entries of lf.device/1 that are this vendor's own.
#include "hardware/device_table.h"

#include <fmt/format.h>

#include "plugin.h"

namespace lf::kunlun {
namespace {

struct Devices : Entries {
  static void describe(const Device& device, lf_device_info& info) {
    device.describe(info);
    if (plugin().collectives_beside_compute()) info.abilities |= LF_DEVICE_COLLECTIVES_BESIDE_COMPUTE;
  }
  static void copy_bytes(CopyEnd to, CopyEnd from, uint64_t bytes, Device* on, XpuStream stream) {
    copy(to, from, bytes, on, stream);
  }
};

int32_t bind_thread(lf_device device, lf_err* err) {
  return entry(err, [&] {
    const Device& bound = plugin().devices.find(device);
    const Runtime& runtime = bound.runtime();
    runtime.check(runtime.xre().set_device(bound.ordinal()), fmt::format("xpu_set_device({})", bound.ordinal()));
  });
}

int32_t synchronize(lf_device device, lf_err* err) {
  return entry(err, [&] { plugin().devices.find(device).synchronize(); });
}

int32_t health(lf_device device, lf_sink json, lf_err* err) {
  return entry(err, [&] {
    std::string text = plugin().devices.find(device).health(), operators;
    for (const auto& [name, count] : plugin().torch().fallen_operators())
      operators += fmt::format("{}\"{}\":{}", operators.empty() ? "" : ",", name, count);
    text.insert(text.size() - 1, fmt::format(",\"operators_on_cpu\":{{{}}}", operators));
    sdk::put(json, text);
  });
}

int32_t torch_register(lf_device device, lf_str torch_build, lf_str, lf_err* err) {
  return entry(err, [&] {
    plugin().torch().register_device(plugin().devices.find(device), std::string(sdk::view(torch_build)));
  });
}

int32_t fill(lf_device device, void* memory, uint8_t value, uint64_t bytes, lf_stream stream, lf_err* err) {
  return entry(err, [&] { plugin().devices.find(device).fill(memory, value, bytes, plugin().native(stream)); });
}

int32_t stream_new(lf_device device, int32_t, lf_stream* out, lf_err* err) {  // no priorities, and the abilities say so
  return entry(err, [&] {
    Device& on = plugin().devices.find(device);
    *out = reinterpret_cast<lf_stream>(plugin().streams.add(std::make_unique<Stream>(on)));
  });
}

int32_t stream_synchronize(lf_stream stream, lf_err* err) {
  return entry(err, [&] { wait_for_stream(plugin().device_of(stream, nullptr), plugin().native(stream)); });
}

int32_t stream_wait(lf_stream stream, lf_event event, lf_err* err) {
  return entry(err, [&] {
    const Event& awaited = plugin().events.find(event);
    awaited.make_wait(plugin().native(stream), plugin().device_of(stream, &awaited.device()));
  });
}

lf_device_api make_table() {
  lf_device_api table = hardware::DeviceEntries<Devices>::table();
  table.bind_thread = bind_thread;
  table.synchronize = synchronize;
  table.health = health;
  table.torch_register = torch_register;
  table.fill = fill;
  table.stream_new = stream_new;
  table.stream_synchronize = stream_synchronize;
  table.stream_wait = stream_wait;
  return table;  // the runtime has no event timing and no profiler ranges
}

}  // namespace

const lf_device_api kDeviceTable = make_table();

}  // namespace lf::kunlun
