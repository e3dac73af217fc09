// The device template with one thing wrong, chosen by the variable LF_WRONG; the conformance kit must say which.
#define lf_plugin_entry good_plugin_entry
#include "device.cpp"  // of plugin_api/template/cpp
#undef lf_plugin_entry

#include <atomic>
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

// ---- less than what the kit's other cases ask ----

int32_t probe_one_more(uint32_t* count, lf_sink, lf_err*) {
  static uint32_t found = 0;
  return *count = ++found, LF_OK;
}

int32_t refused(lf_err* err) {
  lf::sdk::set_error(err, LF_E_INVALID, "wrong_device: not today");
  return LF_E_INVALID;
}

int32_t close_few(lf_device device, lf_err* err) {
  static int closed = 0;
  return ++closed > 5 ? refused(err) : kTable.close(device, err);
}

int32_t open_one(uint32_t ordinal, lf_device* out, lf_err* err) {
  static lf_device one = nullptr;
  if (one == nullptr && kTable.open(ordinal, &one, err) != LF_OK) return refused(err);
  return *out = one, LF_OK;
}

int32_t info_grows(lf_device device, lf_device_info* out, lf_err* err) {
  static uint64_t more = 0;
  const int32_t code = kTable.info(device, out, err);
  if (out->h.size >= sizeof *out) out->memory_bytes += ++more;
  return code;
}

int32_t info_states_queries(lf_device device, lf_device_info* out, lf_err* err) {
  const int32_t code = kTable.info(device, out, err);
  if (out->h.size >= sizeof *out) out->abilities |= LF_DEVICE_EVENT_QUERY;
  return code;
}

int32_t info_of_none(lf_device device, lf_device_info* out, lf_err* err) {
  return device == nullptr ? LF_OK : kTable.info(device, out, err);
}

int32_t stats_whole(lf_device device, lf_memory_stats* out, lf_err* err) {
  auto whole = lf::sdk::with_header<lf_memory_stats>();
  const int32_t code = kTable.memory_stats(device, &whole, err);
  *out = whole;
  return code;
}

// All that the host has, known or not.
template <typename Table, auto kMember>
int32_t to_the_last_byte(lf_device device, Table* out, lf_err* err) {
  const int32_t code = (kTable.*kMember)(device, out, err);
  if (out->h.size > sizeof *out) std::memset(out + 1, 1, out->h.size - sizeof *out);
  return code;
}

int32_t bind_main_only(lf_device device, lf_err* err) {
  return gettid() == getpid() ? kTable.bind_thread(device, err) : refused(err);
}

int32_t health_in_words(lf_device, lf_sink json, lf_err* err) {
  return lf::sdk::guard(err, [&] { lf::sdk::put(json, "I am fine"); });
}

int32_t free_of_null_fails(lf_device device, void* memory, lf_err* err) {
  return memory == nullptr ? refused(err) : kTable.memory_free(device, memory, err);
}

int32_t free_of_null_is_silent(lf_device device, void* memory, lf_err* err) {
  return memory == nullptr ? LF_E_INVALID : kTable.memory_free(device, memory, err);
}

int32_t alloc_within(lf_device device, uint64_t, int32_t kind, void** out, lf_err* err) {
  static char* last = nullptr;
  if (last != nullptr) return *out = last += 64, LF_OK;
  const int32_t code = kTable.memory_alloc(device, uint64_t{1} << 20, kind, out, err);
  last = static_cast<char*>(*out);
  return code;
}

int32_t alloc_askew(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  const int32_t code = kTable.memory_alloc(device, bytes + 8, kind, out, err);
  *out = static_cast<char*>(*out) + 8;
  return code;
}

int32_t alloc_nothing_else(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  if (kind == LF_MEMORY_MAIN) return kTable.memory_alloc(device, bytes, kind, out, err);
  return *out = nullptr, LF_OK;
}

int32_t alloc_one_at_a_time(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  static std::atomic<int> inside = 0;
  const bool alone = inside.fetch_add(1) == 0;
  usleep(200);
  const int32_t code = alone ? kTable.memory_alloc(device, bytes, kind, out, err) : refused(err);
  inside.fetch_sub(1);
  return code;
}

int32_t alloc_until_refused(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  static int32_t stuck = LF_OK;
  if (stuck != LF_OK) return refused(err);
  return stuck = kTable.memory_alloc(device, bytes, kind, out, err);
}

int32_t stats_of_success(lf_device device, lf_memory_stats* out, lf_err* err) {
  const int32_t code = kTable.memory_stats(device, out, err);
  if (out->h.size >= sizeof *out) out->n_out_of_memory = 0;
  return code;
}

int32_t copy_something(lf_device to_device, void* to, lf_device from_device, const void* from, uint64_t bytes,
                       lf_stream stream, lf_err* err) {
  return kTable.copy(to_device, to, from_device, from, bytes == 0 ? 1 : bytes, stream, err);
}

int32_t copy_of_null(lf_device to_device, void* to, lf_device from_device, const void* from, uint64_t bytes,
                     lf_stream stream, lf_err* err) {
  if (to == nullptr || from == nullptr) return LF_OK;
  return kTable.copy(to_device, to, from_device, from, bytes, stream, err);
}

int32_t copy_to_even(lf_device to_device, void* to, lf_device from_device, const void* from, uint64_t bytes,
                     lf_stream stream, lf_err* err) {
  if (to_device != nullptr) to = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(to) & ~uintptr_t{1});
  return kTable.copy(to_device, to, from_device, from, bytes, stream, err);
}

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
  if (kWrong == "probe_one_more") api.probe = probe_one_more;
  if (kWrong == "close_few") api.close = close_few;
  if (kWrong == "open_one") api.open = open_one;
  if (kWrong == "info_grows") api.info = info_grows;
  if (kWrong == "info_states_queries") api.info = info_states_queries;
  if (kWrong == "info_of_none") api.info = info_of_none;
  if (kWrong == "info_to_the_last_byte") api.info = to_the_last_byte<lf_device_info, &lf_device_api::info>;
  if (kWrong == "stats_to_the_last_byte")
    api.memory_stats = to_the_last_byte<lf_memory_stats, &lf_device_api::memory_stats>;
  if (kWrong == "stats_whole") api.memory_stats = stats_whole;
  if (kWrong == "stats_of_success") api.memory_stats = stats_of_success;
  if (kWrong == "bind_main_only") api.bind_thread = bind_main_only;
  if (kWrong == "health_in_words") api.health = health_in_words;
  if (kWrong == "free_of_null_fails") api.memory_free = free_of_null_fails;
  if (kWrong == "free_of_null_is_silent") api.memory_free = free_of_null_is_silent;
  if (kWrong == "alloc_within") api.memory_alloc = alloc_within;
  if (kWrong == "alloc_askew") api.memory_alloc = alloc_askew;
  if (kWrong == "alloc_nothing_else") api.memory_alloc = alloc_nothing_else;
  if (kWrong == "alloc_one_at_a_time") api.memory_alloc = alloc_one_at_a_time;
  if (kWrong == "alloc_until_refused") api.memory_alloc = alloc_until_refused;
  if (kWrong == "copy_something") api.copy = copy_something;
  if (kWrong == "copy_of_null") api.copy = copy_of_null;
  if (kWrong == "copy_to_even") api.copy = copy_to_even;
  return api;
}();

const lf_device_api kOddTable = [] {
  lf_device_api api = kWrongTable;
  api.h.size += 4;
  return api;
}();

int32_t start_fails(const lf_host*, lf_err* err) { return refused(err); }

const lf::sdk::Interface kWrongInterfaces[] = {{LF_DEVICE_INTERFACE, &kWrongTable}};
const lf_plugin kWrongPlugin = [] {
  lf_plugin plugin =
      lf::sdk::make_plugin<kWrongInterfaces>(LF_KIND_DEVICE, "template_cpp", kWrong == "other_version" ? "2" : "1",
                                             kWrong == "thread"        ? start_thread
                                             : kWrong == "start_fails" ? start_fails
                                                                       : nullptr);
  if (kWrong == "other_major") plugin.h.major = 9;
  if (kWrong == "any_interface") plugin.get_interface = [](lf_str) -> const void* { return &kWrongTable; };
  if (kWrong == "odd_table") plugin.get_interface = [](lf_str) -> const void* { return &kOddTable; };
  if (kWrong == "reads_to_nul")
    plugin.get_interface = [](lf_str id) -> const void* {
      return std::strcmp(id.data, LF_DEVICE_INTERFACE) == 0 ? &kWrongTable : nullptr;
    };
  if (kWrong == "two_tables")
    plugin.get_interface = [](lf_str) -> const void* {
      static int asked = 0;
      return ++asked % 2 == 0 ? &kWrongTable : &kTable;
    };
  return plugin;
}();

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kWrongPlugin; }
