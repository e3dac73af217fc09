// A card with streams, events and collectives, and one thing wrong, chosen by the variable LF_WRONG; the conformance
// kit must say which. Beneath it is the device plugin that LF_INNER names, over a simulated runtime.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <unistd.h>

#include "lf/plugin_api/collective.h"
#include "lf/plugin_sdk/plugin.hpp"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"device","id":"wrong_card","version":"1","interfaces":["lf.device/1","lf.collective/1"],"torch":"none"})");

namespace {

using lf::sdk::guard;

bool wrong(std::string_view fault) {
  const char* chosen = std::getenv("LF_WRONG");
  return chosen != nullptr && fault == chosen;
}

const lf_plugin* inner() {
  static const lf_plugin* const plugin = [] {
    const char* file = std::getenv("LF_INNER");
    void* library = file == nullptr ? nullptr : dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error("LF_INNER: expected a device plugin, got none that opens");
    return reinterpret_cast<const lf_plugin* (*)(uint32_t, uint32_t)>(dlsym(library, LF_PLUGIN_ENTRY_NAME))(
        LF_ABI_MAJOR, LF_ABI_MINOR);
  }();
  return plugin;
}

const lf_device_api& card() {
  static const auto* table =
      static_cast<const lf_device_api*>(inner()->get_interface(lf::sdk::str(LF_DEVICE_INTERFACE)));
  return *table;
}

const lf_collective_api& group() {
  static const auto* table =
      static_cast<const lf_collective_api*>(inner()->get_interface(lf::sdk::str(LF_COLLECTIVE_INTERFACE)));
  return *table;
}

int32_t refused(lf_err* err) {
  lf::sdk::set_error(err, LF_E_INVALID, "wrong_card: not today");
  return LF_E_INVALID;
}

// ---- streams: work that is held back until the next of its stream, or lost ----

std::function<int32_t(lf_err*)>& held() {
  static std::function<int32_t(lf_err*)> work;
  return work;
}

int32_t let_go(lf_err* err) { return held() ? std::exchange(held(), nullptr)(err) : LF_OK; }

int32_t fill_later(lf_device device, void* memory, uint8_t value, uint64_t bytes, lf_stream stream, lf_err* err) {
  const int32_t code = let_go(err);
  held() = [=](lf_err* e) { return card().fill(device, memory, value, bytes, stream, e); };
  return code;
}

int32_t copy_first(lf_device to_device, void* to, lf_device from_device, const void* from, uint64_t bytes,
                   lf_stream stream, lf_err* err) {
  const int32_t code = card().copy(to_device, to, from_device, from, bytes, stream, err);
  return code == LF_OK ? let_go(err) : code;
}

int32_t upload_later(lf_device to_device, void* to, lf_device from_device, const void* from, uint64_t bytes,
                     lf_stream stream, lf_err* err) {
  if (from_device != nullptr || stream == nullptr)
    return copy_first(to_device, to, from_device, from, bytes, stream, err);
  held() = [=](lf_err* e) { return card().copy(to_device, to, from_device, from, bytes, stream, e); };
  return LF_OK;
}

int32_t stream_synchronize_after_all(lf_stream stream, lf_err* err) {
  const int32_t code = let_go(err);
  return code == LF_OK ? card().stream_synchronize(stream, err) : code;
}

int32_t synchronize_after_all(lf_device device, lf_err* err) {
  const int32_t code = let_go(err);
  return code == LF_OK ? card().synchronize(device, err) : code;
}

int32_t free_and_forget(lf_stream stream, lf_err* err) {
  held() = nullptr;
  return card().stream_free(stream, err);
}

int32_t synchronize_default_stream(lf_device device, lf_err* err) {
  lf_event event = nullptr;
  int32_t code = card().event_new(device, 0, &event, err);
  if (code == LF_OK) code = card().event_record(event, nullptr, err);
  if (code == LF_OK) code = card().event_synchronize(event, err);
  return code == LF_OK ? card().event_free(event, err) : code;
}

// A card that writes to memory which is gone would end the process before the kit can tell what is wrong.
int32_t free_when_idle(lf_device device, void* memory, lf_err* err) {
  const int32_t code = card().synchronize(device, err);
  return code == LF_OK ? card().memory_free(device, memory, err) : code;
}

bool held_back() { return wrong("order_swapped") || wrong("upload_late") || wrong("freed_work_is_lost"); }

std::atomic<int> streams_made = 0, streams_freed = 0, events_made = 0, ranges_open = 0;

int32_t few_streams(lf_device device, int32_t priority, lf_stream* out, lf_err* err) {
  return ++streams_made > 100 ? refused(err) : card().stream_new(device, priority, out, err);
}

int32_t no_priority(lf_device device, int32_t priority, lf_stream* out, lf_err* err) {
  return priority != 0 ? refused(err) : card().stream_new(device, priority, out, err);
}

int32_t free_few(lf_stream stream, lf_err* err) {
  return ++streams_freed > 10 ? refused(err) : card().stream_free(stream, err);
}

int32_t sync_once(lf_stream stream, lf_err* err) {
  static std::set<lf_stream> known;
  return known.insert(stream).second ? card().stream_synchronize(stream, err) : refused(err);
}

int32_t fill_on_one_thread(lf_device device, void* memory, uint8_t value, uint64_t bytes, lf_stream stream,
                           lf_err* err) {
  return gettid() == getpid() ? card().fill(device, memory, value, bytes, stream, err) : refused(err);
}

// ---- events ----

std::mutex recorded_mutex;
std::set<lf_event> recorded;

int32_t record(lf_event event, lf_stream stream, lf_err* err) {
  const std::lock_guard lock(recorded_mutex);
  recorded.insert(event);
  return card().event_record(event, stream, err);
}

bool is_recorded(lf_event event) {
  const std::lock_guard lock(recorded_mutex);
  return recorded.contains(event);
}

int32_t wait_for_record(lf_event event, lf_err* err) {
  while (!is_recorded(event)) pause();
  return card().event_synchronize(event, err);
}

int32_t query_odd(lf_event event, int32_t* done, lf_err* err) {
  if (is_recorded(event)) return card().event_query(event, done, err);
  *done = 7;
  return LF_OK;
}

int32_t few_events(lf_device device, uint32_t flags, lf_event* out, lf_err* err) {
  return ++events_made > 100 ? refused(err) : card().event_new(device, flags, out, err);
}

int32_t free_only_done(lf_event event, lf_err* err) {
  int32_t done = 0;
  if (card().event_query(event, &done, err) == LF_OK && done == 0) std::abort();
  return card().event_free(event, err);
}

int32_t stream_free_any(lf_stream stream, lf_err* err) {
  return stream == nullptr ? LF_OK : card().stream_free(stream, err);
}

int32_t event_free_any(lf_event event, lf_err* err) { return event == nullptr ? LF_OK : card().event_free(event, err); }

int32_t info_of_more(lf_device device, lf_device_info* out, lf_err* err) {
  const int32_t code = card().info(device, out, err);
  if (out->h.size >= sizeof *out) out->abilities |= LF_DEVICE_STREAM_PRIORITY | LF_DEVICE_EVENT_TIMING;
  return code;
}

lf_device_api make_card() {
  lf_device_api api = card();
  const auto done = [](auto...) -> int32_t { return LF_OK; };
  if (wrong("query_says_done"))
    api.event_query = [](lf_event, int32_t* out, lf_err*) -> int32_t { return *out = 1, LF_OK; };
  if (wrong("query_never_done"))
    api.event_query = [](lf_event, int32_t* out, lf_err*) -> int32_t { return *out = 0, LF_OK; };
  if (wrong("query_odd")) api.event_record = record, api.event_query = query_odd;
  if (wrong("wait_ignored")) api.stream_wait = done;
  if (wrong("synchronize_ignored")) api.synchronize = synchronize_default_stream, api.memory_free = free_when_idle;
  if (wrong("stream_synchronize_ignored")) api.stream_synchronize = done;
  if (wrong("event_synchronize_ignored")) api.event_synchronize = done;
  if (wrong("unrecorded_hangs")) api.event_record = record, api.event_synchronize = wait_for_record;
  if (wrong("order_swapped")) api.fill = fill_later, api.copy = copy_first;
  if (wrong("upload_late")) api.copy = upload_later;
  if (wrong("freed_work_is_lost")) api.fill = fill_later, api.copy = copy_first, api.stream_free = free_and_forget;
  if (held_back()) api.synchronize = synchronize_after_all, api.stream_synchronize = stream_synchronize_after_all;
  if (wrong("few_streams")) api.stream_new = few_streams;
  if (wrong("few_frees")) api.stream_free = free_few;
  if (wrong("idle_refused")) api.stream_synchronize = sync_once;
  if (wrong("no_native")) api.stream_native = [](lf_stream, void**, lf_err* err) { return refused(err); };
  if (wrong("no_priority")) api.stream_new = no_priority, api.info = info_of_more;
  if (wrong("one_thread")) api.fill = fill_on_one_thread;
  if (wrong("null_stream_freed")) api.stream_free = stream_free_any;
  if (wrong("null_event_freed")) api.event_free = event_free_any;
  if (wrong("few_events")) api.event_new = few_events;
  if (wrong("pending_event_crash")) api.event_free = free_only_done;
  if (wrong("stream_free_missing")) api.stream_free = nullptr;
  if (wrong("event_record_missing")) api.event_record = nullptr;
  if (wrong("time_runs_back") || wrong("time_of_nothing")) api.info = info_of_more;
  if (wrong("time_runs_back"))
    api.event_milliseconds = [](lf_event, lf_event, double* out, lf_err*) -> int32_t { return *out = -1, LF_OK; };
  if (wrong("time_of_nothing"))
    api.event_milliseconds = [](lf_event, lf_event, double* out, lf_err*) -> int32_t { return *out = 1, LF_OK; };
  if (wrong("one_range")) {
    api.range_push = [](lf_device, lf_str, lf_err*) -> int32_t { return ++ranges_open, LF_OK; };
    api.range_pop = [](lf_device, lf_err* err) { return ranges_open.exchange(0) > 0 ? LF_OK : refused(err); };
  }
  return api;
}

// ---- collectives ----

struct Member {
  lf_device device;
  int32_t rank, size;
};
std::map<lf_communicator, Member>& members() {
  static std::map<lf_communicator, Member> of;
  return of;
}

int32_t join(lf_device device, const lf_communicator_config* config, lf_communicator* out, lf_err* err) {
  const int32_t code = group().create(device, config, out, err);
  if (code == LF_OK) members()[*out] = {device, config->rank, config->size};
  return code;
}

int32_t join_any(lf_device device, const lf_communicator_config* config, lf_communicator* out, lf_err* err) {
  lf_communicator_config other = *config;
  other.rank = 0;
  other.size = 1;
  return group().create(device, &other, out, err);
}

// Behind what the vendor has done on the stream, `bytes` of `from` over it.
int32_t put_over(lf_communicator c, int32_t code, void* to, const void* from, uint64_t bytes, lf_stream stream,
                 lf_err* err) {
  const lf_device device = members().at(c).device;
  return code == LF_OK ? card().copy(device, to, device, from, bytes, stream, err) : code;
}

int32_t sum_for_all(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                    lf_stream stream, lf_err* err) {
  if (reduction == LF_REDUCE_MAX) reduction = LF_REDUCE_SUM;
  return group().all_reduce(c, in, out, n, dtype, reduction, stream, err);
}

int32_t max_for_all(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                    lf_stream stream, lf_err* err) {
  if (reduction == LF_REDUCE_SUM) reduction = LF_REDUCE_MAX;
  return group().all_reduce(c, in, out, n, dtype, reduction, stream, err);
}

int32_t reduce_out_of_place(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                            lf_stream stream, lf_err* err) {
  return in == out ? LF_OK : group().all_reduce(c, in, out, n, dtype, reduction, stream, err);
}

int32_t reduce_over_input(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                          lf_stream stream, lf_err* err) {
  const int32_t code = group().all_reduce(c, in, out, n, dtype, reduction, stream, err);
  return put_over(c, code, const_cast<void*>(in), out, 4 * n, stream, err);
}

int32_t reduce_any_type(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                        lf_stream stream, lf_err* err) {
  return dtype == LF_DTYPE_F32 ? group().all_reduce(c, in, out, n, dtype, reduction, stream, err) : LF_OK;
}

int32_t gather_of_last(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, lf_stream stream,
                       lf_err* err) {
  const int32_t code = group().all_gather(c, in, out, n, dtype, stream, err);
  const uint64_t last = static_cast<uint64_t>(members().at(c).size - 1) * 4 * n;
  return put_over(c, code, out, static_cast<char*>(out) + last, 4 * n, stream, err);
}

int32_t gather_of_others(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, lf_stream stream,
                         lf_err* err) {
  return members().at(c).size == 1 ? LF_OK : group().all_gather(c, in, out, n, dtype, stream, err);
}

int32_t scatter_of_own(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction,
                       lf_stream stream, lf_err* err) {
  const int32_t code = group().reduce_scatter(c, in, out, n, dtype, reduction, stream, err);
  const auto* own = static_cast<const char*>(in) + static_cast<uint64_t>(members().at(c).rank) * 4 * n;
  return put_over(c, code, out, own, 4 * n, stream, err);
}

int32_t broadcast_of_own(lf_communicator c, const void* in, void* out, uint64_t n, int32_t dtype, int32_t root,
                         lf_stream stream, lf_err* err) {
  const int32_t code = group().broadcast(c, in, out, n, dtype, root, stream, err);
  return put_over(c, code, out, in, 4 * n, stream, err);
}

int32_t receive_zeros(lf_communicator c, void* out, uint64_t n, int32_t dtype, int32_t peer, lf_stream stream,
                      lf_err* err) {
  const int32_t code = group().receive(c, out, n, dtype, peer, stream, err);
  return code == LF_OK ? card().fill(members().at(c).device, out, 0, 4 * n, stream, err) : code;
}

int32_t exchange_without_gaps(lf_communicator c, const void* in, const uint64_t* n_send, const uint64_t* send_at,
                              void* out, const uint64_t* n_recv, const uint64_t*, int32_t dtype, lf_stream stream,
                              lf_err* err) {
  const uint64_t packed[2] = {0, n_recv[0]};
  return group().all_to_all(c, in, n_send, send_at, out, n_recv, packed, dtype, stream, err);
}

int32_t exchange_something(lf_communicator c, const void* in, const uint64_t* n_send, const uint64_t* send_at,
                           void* out, const uint64_t* n_recv, const uint64_t* recv_at, int32_t dtype, lf_stream stream,
                           lf_err* err) {
  if (n_send[0] + n_send[1] == 0) return refused(err);
  return group().all_to_all(c, in, n_send, send_at, out, n_recv, recv_at, dtype, stream, err);
}

lf_collective_api make_group() {
  lf_collective_api api = group();
  api.create = join;
  if (wrong("ids_equal"))
    api.new_id = [](lf_sink id, lf_err* err) { return guard(err, [&] { lf::sdk::put(id, std::string(128, 'i')); }); };
  if (wrong("state_is_bad")) api.state = [](lf_communicator, lf_err* err) { return refused(err); };
  if (wrong("abort_ignored")) api.abort = [](lf_communicator, lf_err*) { return int32_t{LF_OK}; };
  if (wrong("any_rank")) api.create = join_any;
  if (wrong("any_type")) api.all_reduce = reduce_any_type;
  if (wrong("sum_for_max")) api.all_reduce = sum_for_all;
  if (wrong("max_for_sum")) api.all_reduce = max_for_all;
  if (wrong("not_in_place")) api.all_reduce = reduce_out_of_place;
  if (wrong("over_input")) api.all_reduce = reduce_over_input;
  if (wrong("gather_of_last")) api.all_gather = gather_of_last;
  if (wrong("gather_of_others")) api.all_gather = gather_of_others;
  if (wrong("scatter_of_own")) api.reduce_scatter = scatter_of_own;
  if (wrong("broadcast_of_own")) api.broadcast = broadcast_of_own;
  if (wrong("receive_zeros")) api.receive = receive_zeros;
  if (wrong("no_gaps")) api.all_to_all = exchange_without_gaps;
  if (wrong("something_to_send")) api.all_to_all = exchange_something;
  return api;
}

const void* get_interface(lf_str id) {
  static const lf_device_api device = make_card();
  static const lf_collective_api collectives = make_group();
  if (lf::sdk::view(id) == LF_DEVICE_INTERFACE) return &device;
  return lf::sdk::view(id) == LF_COLLECTIVE_INTERFACE ? &collectives : nullptr;
}

const lf_plugin kPlugin = [] {
  auto plugin = lf::sdk::with_header<lf_plugin>();
  plugin.magic = LF_PLUGIN_MAGIC;
  plugin.kind = LF_KIND_DEVICE;
  plugin.id = lf::sdk::str("wrong_card");
  plugin.version = lf::sdk::str("1");
  plugin.get_interface = get_interface;
  plugin.start = [](const lf_host* host, lf_err* err) { return inner()->start(host, err); };
  plugin.stop = [](lf_err* err) { return inner()->stop(err); };
  return plugin;
}();

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
