// The device template with one thing wrong, chosen by the variable LF_WRONG; the conformance kit must say which.
#define lf_plugin_entry good_plugin_entry
#include "device.cpp"  // of plugin_api/template/cpp
#undef lf_plugin_entry

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <unistd.h>

namespace {

const std::string_view kWrong = std::getenv("LF_WRONG") != nullptr ? std::getenv("LF_WRONG") : "";

int32_t free_anything(lf_device device, void* memory, lf_err* err) {
  const int32_t code = kTable.memory_free(device, memory, err);
  return code == LF_E_INVALID ? LF_OK : code;
}

int32_t copy_short(lf_device to_device, void* to, lf_device from_device, const void* from, uint64_t bytes,
                   lf_stream stream, lf_err* err) {
  return kTable.copy(to_device, to, from_device, from, bytes > 64 ? bytes - 1 : bytes, stream, err);
}

int32_t copy_crash(lf_device, void*, lf_device, const void*, uint64_t, lf_stream, lf_err*) {
  return raise(SIGSEGV), LF_OK;
}

int32_t info_whole(lf_device device, lf_device_info* out, lf_err* err) {
  auto whole = lf::sdk::with_header<lf_device_info>();
  const int32_t code = kTable.info(device, &whole, err);
  *out = whole;
  return code;
}

int32_t info_throws(lf_device, lf_device_info*, lf_err*) { throw std::runtime_error("no luck"); }

int32_t info_odd(lf_device device, lf_device_info* out, lf_err* err) {
  const int32_t code = kTable.info(device, out, err);
  if (out->h.size >= sizeof *out) out->alignment = 48;
  return code;
}

int32_t alloc_wrong_code(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  const int32_t code = kTable.memory_alloc(device, bytes, kind, out, err);
  return code == LF_E_NOMEM_DEVICE ? LF_E_BUG : code;
}

int32_t alloc_silent(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  const int32_t code = kTable.memory_alloc(device, bytes, kind, out, err);
  err->message[0] = '\0';
  return code;
}

int32_t stats_only_grow(lf_device device, lf_memory_stats* out, lf_err* err) {
  const int32_t code = kTable.memory_stats(device, out, err);
  if (out->h.size >= sizeof *out) out->allocated_bytes = out->peak_bytes;
  return code;
}

int32_t fill_too_far(lf_device device, void* memory, uint8_t value, uint64_t bytes, lf_stream stream, lf_err* err) {
  return kTable.fill(device, memory, value, bytes > 1 ? bytes + 1 : bytes, stream, err);
}

int32_t synchronize_hangs(lf_device, lf_err*) {
  for (;;) pause();
}

int32_t open_any(uint32_t, lf_device* out, lf_err* err) { return kTable.open(0, out, err); }

int32_t start_thread(const lf_host*, lf_err*) {
  std::thread([] {
    for (;;) pause();
  }).detach();
  return LF_OK;
}

const lf_device_api kWrongTable = [] {
  lf_device_api api = kTable;
  if (kWrong == "double_free") api.memory_free = free_anything;
  if (kWrong == "copy_short") api.copy = copy_short;
  if (kWrong == "copy_crash") api.copy = copy_crash;
  if (kWrong == "info_whole") api.info = info_whole;
  if (kWrong == "info_throws") api.info = info_throws;
  if (kWrong == "info_odd") api.info = info_odd;
  if (kWrong == "alloc_wrong_code") api.memory_alloc = alloc_wrong_code;
  if (kWrong == "alloc_silent") api.memory_alloc = alloc_silent;
  if (kWrong == "stats_only_grow") api.memory_stats = stats_only_grow;
  if (kWrong == "fill_too_far") api.fill = fill_too_far;
  if (kWrong == "synchronize_hangs") api.synchronize = synchronize_hangs;
  if (kWrong == "open_any") api.open = open_any;
  if (kWrong == "fill_missing") api.fill = nullptr;
  return api;
}();

const lf::sdk::Interface kWrongInterfaces[] = {{LF_DEVICE_INTERFACE, &kWrongTable}};
const lf_plugin kWrongPlugin = lf::sdk::make_plugin<kWrongInterfaces>(
    LF_KIND_DEVICE, "template_cpp", kWrong == "other_version" ? "2" : "1", kWrong == "thread" ? start_thread : nullptr);

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kWrongPlugin; }
