// The entries of lf.device/1 that are this vendor's own.
#include "hardware/device_table.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include "plugin.h"

namespace lf::cuda {
namespace {

struct Devices : Entries {
  static void describe(const Device& device, lf_device_info& info) { device.describe(info); }
  static void copy_bytes(CopyEnd to, CopyEnd from, uint64_t bytes, Device* on, cudaStream_t stream) {
    copy(to, from, bytes, on, stream);
  }
};

int32_t bind_thread(lf_device device, lf_err* err) {
  return entry(err, [&] {
    const Device& bound = plugin().devices.find(device);
    bound.runtime().check(bound.runtime().set_device(bound.ordinal()),
                          fmt::format("cudaSetDevice({})", bound.ordinal()));
  });
}

int32_t synchronize(lf_device device, lf_err* err) {
  return entry(err, [&] {
    const Device& waited = plugin().devices.find(device);
    const CurrentDevice current(waited.runtime(), waited.ordinal());
    waited.runtime().check(waited.runtime().device_synchronize(), "cudaDeviceSynchronize");
  });
}

int32_t health(lf_device device, lf_sink json, lf_err* err) {
  return entry(err, [&] { sdk::put(json, plugin().devices.find(device).health()); });
}

int32_t torch_register(lf_device device, lf_str torch_build, lf_str torch_library_dir, lf_err* err) {
  return entry(err, [&] {
    plugin().devices.find(device);
    plugin().register_with_torch(sdk::view(torch_library_dir), std::string(sdk::view(torch_build)));
  });
}

int32_t fill(lf_device device, void* memory, uint8_t value, uint64_t bytes, lf_stream stream, lf_err* err) {
  return entry(err, [&] {
    if (bytes == 0) return;
    const Device& filled = plugin().devices.find(device);
    const CurrentDevice current(filled.runtime(), filled.ordinal());
    filled.runtime().check(filled.runtime().memset_async(memory, value, bytes, plugin().native(stream)),
                           fmt::format("cudaMemsetAsync of {} bytes", bytes));
  });
}

int32_t stream_new(lf_device device, int32_t priority, lf_stream* out, lf_err* err) {
  return entry(err, [&] {
    Device& on = plugin().devices.find(device);
    *out = reinterpret_cast<lf_stream>(plugin().streams.add(std::make_unique<Stream>(on, priority)));
  });
}

int32_t stream_synchronize(lf_stream stream, lf_err* err) {
  return entry(err, [&] {
    const Device& on = plugin().device_of(stream, nullptr);
    const CurrentDevice current(on.runtime(), on.ordinal());
    on.runtime().check(on.runtime().stream_synchronize(plugin().native(stream)), "cudaStreamSynchronize");
  });
}

int32_t stream_wait(lf_stream stream, lf_event event, lf_err* err) {
  return entry(err, [&] {
    const Event& awaited = plugin().events.find(event);
    const Device& on = plugin().device_of(stream, &awaited.device());
    const CurrentDevice current(on.runtime(), on.ordinal());
    on.runtime().check(on.runtime().stream_wait_event(plugin().native(stream), awaited.native(), 0),
                       "cudaStreamWaitEvent");
  });
}

int32_t event_milliseconds(lf_event from, lf_event to, double* out, lf_err* err) {
  return entry(err, [&] { *out = plugin().events.find(from).milliseconds_until(plugin().events.find(to)); });
}

int32_t range_push(lf_device, lf_str name, lf_err* err) {
  return entry(err, [&] { nvtxRangePushA(std::string(sdk::view(name)).c_str()); });
}

int32_t range_pop(lf_device, lf_err* err) {
  return entry(err, [&] { nvtxRangePop(); });
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
  table.event_milliseconds = event_milliseconds;
  table.range_push = range_push;
  table.range_pop = range_pop;
  return table;
}

}  // namespace

const lf_device_api kDeviceTable = make_table();

}  // namespace lf::cuda
