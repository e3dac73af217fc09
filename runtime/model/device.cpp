#include "model/device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/device_table.h"
#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

constexpr uint64_t kStagingBytes = 16 << 20;

void require_ok(int32_t code, const lf_err& err, const std::string& id, const char* what) {
  if (code == LF_OK) return;
  fail(code == LF_E_NO_DEVICE || code == LF_E_DEVICE_LOST ? Exit::kUnavailable : Exit::kBug, "device {}: {} failed: {}",
       id, what, err.message);
}

}  // namespace

template <typename Function>
int32_t Device::watched(const char* what, lf_err& err, const Function& function, bool for_peers) const {
  const CallWatch::Call call(watch_, fmt::format("device {}: {}", id_, what), for_peers);
  const int32_t code = function(&err);
  call.require_in_time();
  return code;
}

// Nothing is to be done about a failure to let go.
template <typename Function>
void Device::release(const char* what, const Function& function) const {
  const CallWatch::Call call(watch_, fmt::format("device {}: {}", id_, what));
  static_cast<void>(function());
}

template <typename Function>
void Device::call(const char* what, const Function& function, bool for_peers) const {
  lf_err err = sdk::make_err();
  require_ok(watched(what, err, function, for_peers), err, id_, what);
}

Device::Device(const lf_device_api* api, const std::string& id, uint32_t ordinal, CallWatch* watch)
    : api_(api), id_(id), watch_(watch), info_(sdk::with_header<lf_device_info>()) {
  if (const std::string missing = missing_functions(api); !missing.empty())
    fail(Exit::kConfig, "device plugin {}: its {} table lacks {}; `lfrun plugins verify` tells more", id_,
         LF_DEVICE_INTERFACE, missing);
  uint32_t count = 0;
  std::string reason;
  call("probe", [&](lf_err* err) { return api_->probe(&count, sdk::string_sink(reason), err); });
  if (count == 0) fail(Exit::kUnavailable, "device {}: none found on this machine: {}", id_, reason);
  // A host device is one device, shared by all local workers; of cards each worker has its own.
  const bool shared = count == 1 && ordinal > 0;
  if (ordinal >= count && !shared)
    fail(Exit::kUnavailable, "device {}: worker {} of this host has no card, there are {}; start at most {} processes",
         id_, ordinal, count, count);
  call("open", [&](lf_err* err) { return api_->open(shared ? 0 : ordinal, &device_, err); });
  call("info", [&](lf_err* err) { return api_->info(device_, &info_, err); });
  if (shared && !is_host()) {
    lf_err err = sdk::make_err();
    api_->close(device_, &err);
    fail(Exit::kUnavailable, "device {}: worker {} of this host has no card, there is 1; start 1 process", id_,
         ordinal);
  }
  call("bind_thread", [&](lf_err* err) { return api_->bind_thread(device_, err); });
}

Device::~Device() {
  lf_err err = sdk::make_err();
  if (device_ != nullptr) release("close", [&] { return api_->close(device_, &err); });
}

lf_memory_stats Device::memory_stats() const {
  auto stats = sdk::with_header<lf_memory_stats>();
  call("memory_stats", [&](lf_err* err) { return api_->memory_stats(device_, &stats, err); });
  return stats;
}

void Device::synchronize() const {
  call("synchronize", [&](lf_err* err) { return api_->synchronize(device_, err); });
}

void Device::wait_for_compute() const {
  if (!has_streams()) return synchronize();
  const Event done(*this);
  done.record(nullptr);
  done.wait();
}

void Device::register_with_torch(const std::string& torch_build, const std::string& torch_library_dir) const {
  if (!LF_HAS(api_, torch_register)) return;
  call("torch_register", [&](lf_err* err) {
    return api_->torch_register(device_, sdk::str(torch_build), sdk::str(torch_library_dir), err);
  });
}

bool Device::has_streams() const {
  return LF_HAS(api_, stream_new) && LF_HAS(api_, stream_free) && LF_HAS(api_, stream_wait) &&
         LF_HAS(api_, event_new) && LF_HAS(api_, event_free) && LF_HAS(api_, event_record) &&
         LF_HAS(api_, event_synchronize);
}

std::string Device::health() const {
  if (!LF_HAS(api_, health)) return "{}";
  std::string json;
  call("health", [&](lf_err* err) { return api_->health(device_, sdk::string_sink(json), err); });
  return json;
}

Device::Stream::Stream(const Device& device) : device_(device) {
  device.call("stream_new", [&](lf_err* err) { return device.api_->stream_new(device.device_, 0, &handle_, err); });
}

Device::Stream::~Stream() {
  lf_err err = sdk::make_err();
  device_.release("stream_free", [&] { return device_.api_->stream_free(handle_, &err); });
}

Device::Event::Event(const Device& device) : device_(device) {
  device.call("event_new", [&](lf_err* err) { return device.api_->event_new(device.device_, 0, &handle_, err); });
}

Device::Event::Event(Event&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

Device::Event::~Event() {
  lf_err err = sdk::make_err();
  if (handle_ != nullptr) device_.release("event_free", [&] { return device_.api_->event_free(handle_, &err); });
}

void Device::Event::record(lf_stream stream) const {
  device_.call("event_record", [&](lf_err* err) { return device_.api_->event_record(handle_, stream, err); });
}

bool Device::Event::passed() const {
  if ((device_.info_.abilities & LF_DEVICE_EVENT_QUERY) == 0 || !LF_HAS(device_.api_, event_query)) return false;
  int32_t done = 0;
  device_.call("event_query", [&](lf_err* err) { return device_.api_->event_query(handle_, &done, err); });
  return done != 0;
}

void Device::Event::wait(bool for_peers) const {
  device_.call(
      "event_synchronize", [&](lf_err* err) { return device_.api_->event_synchronize(handle_, err); }, for_peers);
}

Device::Range::Range(const Device& device, std::string_view name) : device_(device) {
  if (!device.has_ranges()) return;
  lf_err err = sdk::make_err();
  require_ok(device.api_->range_push(device.device_, sdk::str(name), &err), err, device.id_, "range_push");
}

Device::Range::~Range() {
  lf_err err = sdk::make_err();
  if (device_.has_ranges()) device_.api_->range_pop(device_.device_, &err);
}

void Device::upload(std::byte* to, const void* from, uint64_t bytes, lf_stream stream) const {
  call("copy to the device", [&](lf_err* err) { return api_->copy(device_, to, nullptr, from, bytes, stream, err); });
}

void Device::download(void* to, const std::byte* from, uint64_t bytes, lf_stream stream) const {
  call("copy to the host", [&](lf_err* err) { return api_->copy(nullptr, to, device_, from, bytes, stream, err); });
}

void Device::upload_now(std::byte* to, const void* from, uint64_t bytes) const {
  const Memory staging(*this, std::min(bytes, kStagingBytes), LF_MEMORY_PINNED_HOST);
  for (uint64_t at = 0; at < bytes; at += kStagingBytes) {
    const uint64_t n = std::min(bytes - at, kStagingBytes);
    std::memcpy(staging.data(), static_cast<const std::byte*>(from) + at, n);
    upload(to + at, staging.data(), n, nullptr);
    synchronize();
  }
}

void Device::download_now(void* to, const std::byte* from, uint64_t bytes) const {
  const Memory staging(*this, std::min(bytes, kStagingBytes), LF_MEMORY_PINNED_HOST);
  for (uint64_t at = 0; at < bytes; at += kStagingBytes) {
    const uint64_t n = std::min(bytes - at, kStagingBytes);
    download(staging.data(), from + at, n, nullptr);
    synchronize();
    std::memcpy(static_cast<std::byte*>(to) + at, staging.data(), n);
  }
}

void Device::fill_zero(std::byte* memory, uint64_t bytes, lf_stream stream) const {
  call("fill", [&](lf_err* err) { return api_->fill(device_, memory, 0, bytes, stream, err); });
}

void Device::wait_in(lf_stream stream, const Event& event) const {
  call("stream_wait", [&](lf_err* err) { return api_->stream_wait(stream, event.handle(), err); });
}

Device::Memory::Memory(const Device& device, uint64_t bytes, int32_t kind)
    : device_(&device), bytes_(bytes), kind_(kind) {
  if (bytes == 0) return;
  lf_err err = sdk::make_err();
  void* memory = nullptr;
  const int32_t code = device.watched("memory_alloc", err, [&](lf_err* said) {
    return device.api_->memory_alloc(device.device_, bytes, kind, &memory, said);
  });
  if (code != LF_OK)
    fail(Exit::kUnavailable, "device {}: no room for {:.1f} MiB more: {}; `lfrun check` prints what each part needs",
         device.id_, static_cast<double>(bytes) / (1 << 20), err.message);
  data_ = static_cast<std::byte*>(memory);
  zero();
}

Device::Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Device::Memory& Device::Memory::operator=(Memory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(kind_, other.kind_);
  return *this;
}

Device::Memory::~Memory() {
  lf_err err = sdk::make_err();
  if (data_ != nullptr)
    device_->release("memory_free", [&] { return device_->api_->memory_free(device_->device_, data_, &err); });
}

void Device::Memory::zero() const {
  if (bytes_ == 0) return;
  if (kind_ == LF_MEMORY_PINNED_HOST)
    std::memset(data_, 0, bytes_);
  else
    device_->fill_zero(data_, bytes_, nullptr);
}

}  // namespace lf
