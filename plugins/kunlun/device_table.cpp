// The entries of lf.device/1: handles become objects, and nothing else happens here.
#include <fmt/format.h>

#include "plugin.h"

namespace lf::kunlun {
namespace {

Device* device_or_null(lf_device handle) { return handle == nullptr ? nullptr : &plugin().devices.find(handle); }

int32_t probe(uint32_t* count, lf_sink reason, lf_err* err) {
  return entry(err, [&] {
    std::string why;
    *count = plugin().probe(why);
    if (*count == 0) sdk::put(reason, why);
  });
}

int32_t open(uint32_t ordinal, lf_device* out, lf_err* err) {
  return entry(err, [&] {
    auto device = std::make_unique<Device>(*plugin().runtime(), static_cast<int>(ordinal));
    *out = reinterpret_cast<lf_device>(plugin().devices.add(std::move(device)));
  });
}

int32_t close(lf_device device, lf_err* err) {
  return entry(err, [&] { plugin().close(device); });
}

int32_t info(lf_device device, lf_device_info* out, lf_err* err) {
  return entry(err, [&] {
    auto mine = sdk::with_header<lf_device_info>();
    plugin().devices.find(device).describe(mine);
    const uint32_t size = std::min<uint32_t>(out->h.size, sizeof mine);
    mine.h = out->h;
    std::memcpy(out, &mine, size);
  });
}

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

int32_t memory_alloc(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  return entry(err, [&] { *out = plugin().devices.find(device).allocate(bytes, kind); });
}

int32_t memory_free(lf_device device, void* memory, lf_err* err) {
  return entry(err, [&] { plugin().devices.find(device).release(memory); });
}

int32_t memory_stats(lf_device device, lf_memory_stats* out, lf_err* err) {
  return entry(err, [&] {
    lf_memory_stats mine = plugin().devices.find(device).stats();
    const uint32_t size = std::min<uint32_t>(out->h.size, sizeof mine);
    mine.h = out->h;
    std::memcpy(out, &mine, size);
  });
}

int32_t copy_memory(lf_device to_device, void* to, lf_device from_device, const void* from, uint64_t bytes,
                    lf_stream stream, lf_err* err) {
  return entry(err, [&] {
    Device* target = device_or_null(to_device);
    Device* source = device_or_null(from_device);
    Device* on = target != nullptr ? target : source;
    if (stream != nullptr) on = &plugin().streams.find(stream).device();
    copy({target, to}, {source, const_cast<void*>(from)}, bytes, on, native(plugin(), stream));
  });
}

int32_t fill(lf_device device, void* memory, uint8_t value, uint64_t bytes, lf_stream stream, lf_err* err) {
  return entry(err, [&] { plugin().devices.find(device).fill(memory, value, bytes, native(plugin(), stream)); });
}

int32_t stream_new(lf_device device, int32_t, lf_stream* out, lf_err* err) {  // no priorities, and the abilities say so
  return entry(err, [&] {
    Device& on = plugin().devices.find(device);
    *out = reinterpret_cast<lf_stream>(plugin().streams.add(std::make_unique<Stream>(on)));
  });
}

int32_t stream_free(lf_stream stream, lf_err* err) {
  return entry(err, [&] { plugin().streams.take(stream); });
}

int32_t stream_synchronize(lf_stream stream, lf_err* err) {
  return entry(err, [&] { wait_for_stream(plugin().device_of(stream, nullptr), native(plugin(), stream)); });
}

int32_t stream_wait(lf_stream stream, lf_event event, lf_err* err) {
  return entry(err, [&] {
    const Event& awaited = plugin().events.find(event);
    awaited.make_wait(native(plugin(), stream), plugin().device_of(stream, &awaited.device()));
  });
}

int32_t stream_native(lf_stream stream, void** out, lf_err* err) {
  return entry(err, [&] { *out = native(plugin(), stream); });
}

int32_t event_new(lf_device device, uint32_t, lf_event* out, lf_err* err) {
  return entry(err, [&] {
    Device& on = plugin().devices.find(device);
    *out = reinterpret_cast<lf_event>(plugin().events.add(std::make_unique<Event>(on)));
  });
}

int32_t event_free(lf_event event, lf_err* err) {
  return entry(err, [&] { plugin().events.take(event); });
}

int32_t event_record(lf_event event, lf_stream stream, lf_err* err) {
  return entry(err, [&] { plugin().events.find(event).record(native(plugin(), stream)); });
}

int32_t event_query(lf_event event, int32_t* done, lf_err* err) {
  return entry(err, [&] { *done = plugin().events.find(event).done() ? 1 : 0; });
}

int32_t event_synchronize(lf_event event, lf_err* err) {
  return entry(err, [&] { plugin().events.find(event).wait(); });
}

lf_device_api make_table() {
  auto table = sdk::with_header<lf_device_api>();
  table.probe = probe;
  table.open = open;
  table.close = close;
  table.info = info;
  table.bind_thread = bind_thread;
  table.synchronize = synchronize;
  table.health = health;
  table.torch_register = torch_register;
  table.memory_alloc = memory_alloc;
  table.memory_free = memory_free;
  table.memory_stats = memory_stats;
  table.copy = copy_memory;
  table.fill = fill;
  table.stream_new = stream_new;
  table.stream_free = stream_free;
  table.stream_synchronize = stream_synchronize;
  table.stream_wait = stream_wait;
  table.stream_native = stream_native;
  table.event_new = event_new;
  table.event_free = event_free;
  table.event_record = event_record;
  table.event_query = event_query;
  table.event_synchronize = event_synchronize;
  return table;  // the runtime has no event timing and no profiler ranges
}

}  // namespace

const lf_device_api kDeviceTable = make_table();

}  // namespace lf::kunlun
