// A plugin that does nothing, and, by one definition each, the ways to be a bad one (bad_plugins.cmake).
#include "lf/plugin_sdk/plugin.hpp"

#include <csignal>
#include <stdexcept>

#include <unistd.h>

#include "lf/plugin_api/balancer.h"
#include "lf/plugin_api/device.h"

#ifndef LF_TEST_ABI
#define LF_TEST_ABI "0.1"
#endif
#ifndef LF_TEST_TORCH
#define LF_TEST_TORCH "none"
#endif
#ifndef LF_TEST_REQUIRES
#define LF_TEST_REQUIRES "lf.media/1"
#endif
#ifndef LF_TEST_PARTS
#define LF_TEST_PARTS "part_*.so"
#endif
#ifndef LF_TEST_MAGIC
#define LF_TEST_MAGIC LF_PLUGIN_MAGIC
#endif
#ifndef LF_TEST_KIND
#define LF_TEST_KIND LF_KIND_BALANCER
#endif
#ifndef LF_TEST_KIND_WORD
#define LF_TEST_KIND_WORD "balancer"
#endif
#ifndef LF_TEST_INTERFACE
#define LF_TEST_INTERFACE LF_BALANCER_INTERFACE
#endif
#ifndef LF_TEST_ID
#define LF_TEST_ID "good_00"
#endif
#ifndef LF_TEST_DESCRIPTOR_ID
#define LF_TEST_DESCRIPTOR_ID LF_TEST_ID
#endif
#ifndef LF_TEST_IN_ENTRY
#define LF_TEST_IN_ENTRY
#endif
#ifndef LF_TEST_IN_CONSTRUCTOR
#define LF_TEST_IN_CONSTRUCTOR
#endif

#ifndef LF_TEST_IN_PROBE
#define LF_TEST_IN_PROBE
#endif

#ifndef LF_TEST_NO_MANIFEST
LF_PLUGIN_MANIFEST("{\"abi\":\"" LF_TEST_ABI "\",\"kind\":\"" LF_TEST_KIND_WORD "\",\"id\":\"" LF_TEST_ID
                   "\",\"version\":\"1.2\",\"interfaces\":[\"" LF_TEST_INTERFACE "\"],\"torch\":\"" LF_TEST_TORCH
                   "\",\"requires\":[\"" LF_TEST_REQUIRES "\"],\"parts\":[\"" LF_TEST_PARTS "\"]}");
#endif

void lf_test_nobody_defines_this();
void lf_test_vendor_call();  // vendor.cpp

namespace {

[[maybe_unused]] void crash() { raise(SIGSEGV); }

[[maybe_unused]] void hang() {
  for (;;) pause();
}

[[gnu::constructor]] void on_open() { LF_TEST_IN_CONSTRUCTOR; }

int32_t start(const lf_host*, lf_err* err) {
#ifdef LF_TEST_START_FAILS
  lf::sdk::set_error(err, LF_E_NO_DEVICE, "expected a card, got none");
  return LF_E_NO_DEVICE;
#else
  (void)err;
  return LF_OK;
#endif
}

#ifdef LF_TEST_DEVICES
int32_t probe(uint32_t* count, lf_sink reason, lf_err* err) {
  LF_TEST_IN_PROBE;
  *count = LF_TEST_DEVICES;
  return lf::sdk::guard(err, [&] { lf::sdk::put(reason, *count == 0 ? "the slot is empty" : ""); });
}
#ifndef LF_TEST_DEVICE_UID
#define LF_TEST_DEVICE_UID 0
#endif
int32_t open_device(uint32_t, lf_device* out, lf_err*) {
  static int device;
  *out = reinterpret_cast<lf_device>(&device);
  return LF_OK;
}
int32_t close_device(lf_device, lf_err*) { return LF_OK; }
int32_t info(lf_device, lf_device_info* info, lf_err*) {
  info->uid = LF_TEST_DEVICE_UID;
  info->memory_bytes = 8'000'000'000;
  return LF_OK;
}
const lf_device_api kTable = [] {
  auto table = lf::sdk::with_header<lf_device_api>();
  table.probe = probe;
  table.open = open_device;
  table.close = close_device;
  table.info = info;
#ifndef LF_TEST_LACKS  // what every device has, and nobody calls here
  const auto idle = [](auto...) -> int32_t { return LF_OK; };
  table.bind_thread = idle;
  table.synchronize = idle;
  table.memory_alloc = idle;
  table.memory_free = idle;
  table.memory_stats = idle;
  table.copy = idle;
  table.fill = idle;
#endif
  return table;
}();
#else
const lf_balancer_api kTable = lf::sdk::with_header<lf_balancer_api>();
#endif
#ifdef LF_TEST_NO_INTERFACE
const lf::sdk::Interface kInterfaces[] = {{"lf.other/1", &kTable}};
#else
const lf::sdk::Interface kInterfaces[] = {{LF_TEST_INTERFACE, &kTable}};
#endif

const lf_plugin kPlugin = [] {
  lf_plugin plugin = lf::sdk::make_plugin<kInterfaces>(LF_TEST_KIND, LF_TEST_DESCRIPTOR_ID, "1.2", &start);
  plugin.magic = LF_TEST_MAGIC;
  return plugin;
}();

}  // namespace

#ifndef LF_TEST_NO_ENTRY
extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) {
  LF_TEST_IN_ENTRY;
  return &kPlugin;
}
#else
[[maybe_unused]] const lf_plugin* unused = &kPlugin;
#endif
