#include "lf/plugin_sdk/plugin.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "device.h"
#include "host_facts.h"
#include "lf/plugin_sdk/answer.hpp"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"device","id":"cpu","version":"0.1.0","interfaces":["lf.device/1"],"torch":"none"})");

namespace {

using lf::cpu::Device;
using lf::cpu::Event;
using lf::cpu::Stream;
using lf::sdk::Failure;
using lf::sdk::guard;

template <typename T, typename Handle>
T& object(Handle handle) {
  if (handle == nullptr) throw Failure(LF_E_INVALID, "cpu: expected a handle, got null");
  return *reinterpret_cast<T*>(handle);
}

template <typename T>
T& result(T* out) {
  if (out == nullptr) throw Failure(LF_E_INVALID, "cpu: expected a place for the result, got null");
  return *out;
}

template <size_t kSize>
void copy_text(char (&to)[kSize], const std::string& text) {
  const size_t n = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

void require_bytes(const void* memory, uint64_t bytes) {
  if (memory == nullptr && bytes > 0) throw Failure(LF_E_INVALID, "cpu: expected memory, got null");
}

int32_t probe(uint32_t* count, lf_sink, lf_err* err) {
  return guard(err, [&] { result(count) = 1; });
}

int32_t open_device(uint32_t ordinal, lf_device* out, lf_err* err) {
  return guard(err, [&] {
    if (ordinal != 0)
      throw Failure(LF_E_NO_DEVICE,
                    "cpu: expected ordinal 0, got " + std::to_string(ordinal) + "; the host is one device");
    result(out) = reinterpret_cast<lf_device>(new Device);
  });
}

int32_t close_device(lf_device device, lf_err* err) {
  return guard(err, [&] {
    object<Device>(device).require_unused();
    delete &object<Device>(device);
  });
}

int32_t info(lf_device device, lf_device_info* out, lf_err* err) {
  return guard(err, [&] {
    object<Device>(device);
    lf_device_info info = lf::sdk::with_header<lf_device_info>();
    info.uid = 0;  // host memory
    copy_text(info.name, lf::cpu::processor_name() + ", " + std::to_string(lf::cpu::core_count()) + " cores");
    copy_text(info.arch, "x86_64");
    info.memory_bytes = lf::cpu::host_memory().total_bytes;
    info.abilities = LF_DEVICE_EVENT_QUERY | LF_DEVICE_EVENT_TIMING | LF_DEVICE_SYNCHRONIZE | LF_DEVICE_MEMORY_INFO;
    info.torch_mode = LF_TORCH_BUILT_IN;
    copy_text(info.torch_device, "cpu");
    info.max_streams = UINT32_MAX;
    info.alignment = lf::cpu::kAlignment;
    // Peaks stay 0: nobody states them for this machine.
    lf::sdk::answer(&result(out), info);
  });
}

int32_t bind_thread(lf_device device, lf_err* err) {
  return guard(err, [&] { object<Device>(device); });
}

int32_t synchronize(lf_device device, lf_err* err) {
  return guard(err, [&] { object<Device>(device); });
}

int32_t health(lf_device device, lf_sink json, lf_err* err) {
  return guard(err, [&] {
    object<Device>(device);
    const lf::cpu::HostMemory memory = lf::cpu::host_memory();
    lf::sdk::put(json, "{\"healthy\":true,\"memory_available_bytes\":" + std::to_string(memory.available_bytes) +
                           ",\"memory_total_bytes\":" + std::to_string(memory.total_bytes) + "}");
  });
}

int32_t torch_register(lf_device device, lf_str, lf_str, lf_err* err) {
  return guard(err, [&] { object<Device>(device); });  // LibTorch knows the host by itself
}

int32_t memory_alloc(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  return guard(err, [&] { result(out) = object<Device>(device).allocate(bytes, kind); });
}

int32_t memory_free(lf_device device, void* memory, lf_err* err) {
  return guard(err, [&] { object<Device>(device).release(memory); });
}

int32_t memory_stats(lf_device device, lf_memory_stats* out, lf_err* err) {
  return guard(err, [&] { lf::sdk::answer(&result(out), object<Device>(device).stats()); });
}

int32_t copy(lf_device, void* to, lf_device, const void* from, uint64_t bytes, lf_stream, lf_err* err) {
  return guard(err, [&] {
    require_bytes(to, bytes);
    require_bytes(from, bytes);
    if (bytes > 0) std::memmove(to, from, bytes);
  });
}

int32_t fill(lf_device device, void* memory, uint8_t value, uint64_t bytes, lf_stream, lf_err* err) {
  return guard(err, [&] {
    object<Device>(device);
    require_bytes(memory, bytes);
    if (bytes > 0) std::memset(memory, value, bytes);
  });
}

int32_t stream_new(lf_device device, int32_t priority, lf_stream* out, lf_err* err) {
  return guard(err, [&] {
    object<Device>(device);
    if (priority != 0)
      throw Failure(LF_E_UNSUPPORTED, "cpu: expected stream priority 0, got " + std::to_string(priority) +
                                          "; LF_DEVICE_STREAM_PRIORITY is not offered");
    result(out) = reinterpret_cast<lf_stream>(new Stream);
  });
}

int32_t stream_free(lf_stream stream, lf_err* err) {
  return guard(err, [&] { delete &object<Stream>(stream); });
}

int32_t stream_synchronize(lf_stream, lf_err* err) {
  return guard(err, [] {});
}

int32_t stream_wait(lf_stream, lf_event event, lf_err* err) {
  return guard(err, [&] { object<Event>(event); });  // what it waits for is done
}

int32_t event_new(lf_device device, uint32_t flags, lf_event* out, lf_err* err) {
  return guard(err, [&] {
    object<Device>(device);
    result(out) = reinterpret_cast<lf_event>(new Event((flags & LF_DEVICE_EVENT_TIMING) != 0));
  });
}

int32_t event_free(lf_event event, lf_err* err) {
  return guard(err, [&] { delete &object<Event>(event); });
}

int32_t event_record(lf_event event, lf_stream, lf_err* err) {
  return guard(err, [&] { object<Event>(event).record(); });
}

int32_t event_query(lf_event event, int32_t* done, lf_err* err) {
  return guard(err, [&] {
    object<Event>(event);
    result(done) = 1;
  });
}

int32_t event_synchronize(lf_event event, lf_err* err) {
  return guard(err, [&] { object<Event>(event); });
}

int32_t event_milliseconds(lf_event from, lf_event to, double* out, lf_err* err) {
  return guard(err, [&] { result(out) = object<Event>(from).milliseconds_until(object<Event>(to)); });
}

const lf_device_api kDevice = [] {
  lf_device_api api = lf::sdk::with_header<lf_device_api>();
  api.probe = probe;
  api.open = open_device;
  api.close = close_device;
  api.info = info;
  api.bind_thread = bind_thread;
  api.synchronize = synchronize;
  api.health = health;
  api.torch_register = torch_register;
  api.memory_alloc = memory_alloc;
  api.memory_free = memory_free;
  api.memory_stats = memory_stats;
  api.copy = copy;
  api.fill = fill;
  api.stream_new = stream_new;
  api.stream_free = stream_free;
  api.stream_synchronize = stream_synchronize;
  api.stream_wait = stream_wait;
  api.event_new = event_new;
  api.event_free = event_free;
  api.event_record = event_record;
  api.event_query = event_query;
  api.event_synchronize = event_synchronize;
  api.event_milliseconds = event_milliseconds;
  return api;
}();

const lf::sdk::Interface kInterfaces[] = {{LF_DEVICE_INTERFACE, &kDevice}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_DEVICE, "cpu", "0.1.0");

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
