// Those entries of lf.device/1 that are the same over any vendor: handles become objects, and nothing else happens
// here.
//
// Vendor has plugin() with tables `devices`, `streams` and `events` of handles, the types Device and Event, entry(err,
// body), native(stream), describe(device, info) and copy_bytes(to, from, bytes, on, stream).
#pragma once

#include <memory>
#include <string>

#include "lf/plugin_api/device.h"
#include "lf/plugin_sdk/answer.hpp"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::hardware {

template <typename Vendor>
class DeviceEntries {
 public:
  static lf_device_api table() {
    auto table = sdk::with_header<lf_device_api>();
    table.probe = probe;
    table.open = open;
    table.close = close;
    table.info = info;
    table.memory_alloc = memory_alloc;
    table.memory_free = memory_free;
    table.memory_stats = memory_stats;
    table.copy = copy_memory;
    table.stream_free = stream_free;
    table.stream_native = stream_native;
    table.event_new = event_new;
    table.event_free = event_free;
    table.event_record = event_record;
    table.event_query = event_query;
    table.event_synchronize = event_synchronize;
    return table;
  }

 private:
  static typename Vendor::Device* device_or_null(lf_device handle) {
    return handle == nullptr ? nullptr : &Vendor::plugin().devices.find(handle);
  }

  static int32_t probe(uint32_t* count, lf_sink reason, lf_err* err) {
    return Vendor::entry(err, [&] {
      std::string why;
      *count = Vendor::plugin().probe(why);
      if (*count == 0) sdk::put(reason, why);
    });
  }

  static int32_t open(uint32_t ordinal, lf_device* out, lf_err* err) {
    return Vendor::entry(err, [&] {
      auto device = std::make_unique<typename Vendor::Device>(*Vendor::plugin().runtime(), static_cast<int>(ordinal));
      *out = reinterpret_cast<lf_device>(Vendor::plugin().devices.add(std::move(device)));
    });
  }

  static int32_t close(lf_device device, lf_err* err) {
    return Vendor::entry(err, [&] { Vendor::plugin().close(device); });
  }

  static int32_t info(lf_device device, lf_device_info* out, lf_err* err) {
    return Vendor::entry(err, [&] {
      auto mine = sdk::with_header<lf_device_info>();
      Vendor::describe(Vendor::plugin().devices.find(device), mine);
      sdk::answer(out, mine);
    });
  }

  static int32_t memory_alloc(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
    return Vendor::entry(err, [&] { *out = Vendor::plugin().devices.find(device).allocate(bytes, kind); });
  }

  static int32_t memory_free(lf_device device, void* memory, lf_err* err) {
    return Vendor::entry(err, [&] { Vendor::plugin().devices.find(device).release(memory); });
  }

  static int32_t memory_stats(lf_device device, lf_memory_stats* out, lf_err* err) {
    return Vendor::entry(err, [&] { sdk::answer(out, Vendor::plugin().devices.find(device).stats()); });
  }

  static int32_t copy_memory(lf_device to_device, void* to, lf_device from_device, const void* from, uint64_t bytes,
                             lf_stream stream, lf_err* err) {
    return Vendor::entry(err, [&] {
      typename Vendor::Device* target = device_or_null(to_device);
      typename Vendor::Device* source = device_or_null(from_device);
      typename Vendor::Device* on = target != nullptr ? target : source;
      if (stream != nullptr) on = &Vendor::plugin().streams.find(stream).device();
      Vendor::copy_bytes({target, to}, {source, const_cast<void*>(from)}, bytes, on, Vendor::native(stream));
    });
  }

  static int32_t stream_free(lf_stream stream, lf_err* err) {
    return Vendor::entry(err, [&] { Vendor::plugin().streams.take(stream); });
  }

  static int32_t stream_native(lf_stream stream, void** out, lf_err* err) {
    return Vendor::entry(err, [&] { *out = Vendor::native(stream); });
  }

  static int32_t event_new(lf_device device, uint32_t, lf_event* out, lf_err* err) {
    return Vendor::entry(err, [&] {
      typename Vendor::Device& on = Vendor::plugin().devices.find(device);
      *out = reinterpret_cast<lf_event>(Vendor::plugin().events.add(std::make_unique<typename Vendor::Event>(on)));
    });
  }

  static int32_t event_free(lf_event event, lf_err* err) {
    return Vendor::entry(err, [&] { Vendor::plugin().events.take(event); });
  }

  static int32_t event_record(lf_event event, lf_stream stream, lf_err* err) {
    return Vendor::entry(err, [&] { Vendor::plugin().events.find(event).record(Vendor::native(stream)); });
  }

  static int32_t event_query(lf_event event, int32_t* done, lf_err* err) {
    return Vendor::entry(err, [&] { *done = Vendor::plugin().events.find(event).done() ? 1 : 0; });
  }

  static int32_t event_synchronize(lf_event event, lf_err* err) {
    return Vendor::entry(err, [&] { Vendor::plugin().events.find(event).wait(); });
  }
};

}  // namespace lf::hardware
