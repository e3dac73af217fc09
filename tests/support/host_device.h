// A device table over plain host memory, for tests that need a Device and no plugin file.
#pragma once

#include <cstdlib>
#include <cstring>

#include "lf/plugin_api/device.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::test {

inline const lf_device_api* host_device() {
  static const lf_device_api table = [] {
    auto t = sdk::with_header<lf_device_api>();
    t.probe = [](uint32_t* count, lf_sink, lf_err*) -> int32_t { return *count = 1, LF_OK; };
    t.open = [](uint32_t, lf_device* out, lf_err*) -> int32_t { return *out = nullptr, LF_OK; };
    t.close = [](lf_device, lf_err*) -> int32_t { return LF_OK; };
    t.info = [](lf_device, lf_device_info* out, lf_err*) -> int32_t {
      *out = sdk::with_header<lf_device_info>();
      out->torch_mode = LF_TORCH_BUILT_IN;
      std::strcpy(out->torch_device, "cpu");
      return LF_OK;
    };
    t.bind_thread = [](lf_device, lf_err*) -> int32_t { return LF_OK; };
    t.synchronize = [](lf_device, lf_err*) -> int32_t { return LF_OK; };
    t.memory_alloc = [](lf_device, uint64_t bytes, int32_t, void** out, lf_err*) -> int32_t {
      *out = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
      return *out != nullptr ? LF_OK : LF_E_NOMEM_HOST;
    };
    t.memory_free = [](lf_device, void* memory, lf_err*) -> int32_t { return std::free(memory), LF_OK; };
    t.memory_stats = [](lf_device, lf_memory_stats*, lf_err*) -> int32_t { return LF_OK; };
    t.copy = [](lf_device, void* to, lf_device, const void* from, uint64_t bytes, lf_stream, lf_err*) -> int32_t {
      return std::memcpy(to, from, bytes), LF_OK;
    };
    t.fill = [](lf_device, void* memory, uint8_t value, uint64_t bytes, lf_stream, lf_err*) -> int32_t {
      return std::memset(memory, value, bytes), LF_OK;
    };
    return t;
  }();
  return &table;
}

}  // namespace lf::test
