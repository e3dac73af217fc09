#include "model/device.h"

#include <cstring>
#include <utility>

#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

void require(int32_t code, const lf_err& err, const std::string& id, const char* what) {
  if (code == LF_OK) return;
  fail(code == LF_E_NO_DEVICE || code == LF_E_DEVICE_LOST ? Exit::kUnavailable : Exit::kBug, "device {}: {} failed: {}",
       id, what, err.message);
}

}  // namespace

Device::Device(const lf_device_api* api, const std::string& id, uint32_t ordinal)
    : api_(api), id_(id), info_(sdk::with_header<lf_device_info>()) {
  lf_err err = sdk::make_err();
  uint32_t count = 0;
  std::string reason;
  require(api_->probe(&count, sdk::string_sink(reason), &err), err, id_, "probe");
  if (count == 0) fail(Exit::kUnavailable, "device {}: none found on this machine: {}", id_, reason);
  // A host device is one device, shared by all local workers; of cards each worker has its own.
  const bool shared = count == 1 && ordinal > 0;
  if (ordinal >= count && !shared)
    fail(Exit::kUnavailable, "device {}: worker {} of this host has no card, there are {}; start at most {} processes",
         id_, ordinal, count, count);
  require(api_->open(shared ? 0 : ordinal, &device_, &err), err, id_, "open");
  require(api_->info(device_, &info_, &err), err, id_, "info");
  if (shared && info_.torch_mode != LF_TORCH_BUILT_IN) {
    api_->close(device_, &err);
    fail(Exit::kUnavailable, "device {}: worker {} of this host has no card, there is 1; start 1 process", id_,
         ordinal);
  }
  require(api_->bind_thread(device_, &err), err, id_, "bind_thread");
}

Device::~Device() {
  lf_err err = sdk::make_err();
  if (device_ != nullptr) api_->close(device_, &err);
}

lf_memory_stats Device::memory_stats() const {
  auto stats = sdk::with_header<lf_memory_stats>();
  lf_err err = sdk::make_err();
  require(api_->memory_stats(device_, &stats, &err), err, id_, "memory_stats");
  return stats;
}

void Device::synchronize() const {
  lf_err err = sdk::make_err();
  require(api_->synchronize(device_, &err), err, id_, "synchronize");
}

void Device::wait_for_compute() const {
  if (!has_streams()) return synchronize();
  const Event done(*this);
  done.record(nullptr);
  done.wait();
}

void Device::register_with_torch(const std::string& torch_build, const std::string& torch_library_dir) const {
  if (!LF_HAS(api_, torch_register)) return;
  lf_err err = sdk::make_err();
  require(api_->torch_register(device_, sdk::str(torch_build), sdk::str(torch_library_dir), &err), err, id_,
          "torch_register");
}

bool Device::has_streams() const {
  return LF_HAS(api_, stream_new) && LF_HAS(api_, stream_free) && LF_HAS(api_, stream_wait) &&
         LF_HAS(api_, event_new) && LF_HAS(api_, event_free) && LF_HAS(api_, event_record) &&
         LF_HAS(api_, event_synchronize);
}

std::string Device::health() const {
  if (!LF_HAS(api_, health)) return "{}";
  std::string json;
  lf_err err = sdk::make_err();
  require(api_->health(device_, sdk::string_sink(json), &err), err, id_, "health");
  return json;
}

Device::Stream::Stream(const Device& device) : device_(device) {
  lf_err err = sdk::make_err();
  require(device.api_->stream_new(device.device_, 0, &handle_, &err), err, device.id_, "stream_new");
}

Device::Stream::~Stream() {
  lf_err err = sdk::make_err();
  device_.api_->stream_free(handle_, &err);
}

Device::Event::Event(const Device& device) : device_(device) {
  lf_err err = sdk::make_err();
  require(device.api_->event_new(device.device_, 0, &handle_, &err), err, device.id_, "event_new");
}

Device::Event::Event(Event&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

Device::Event::~Event() {
  lf_err err = sdk::make_err();
  if (handle_ != nullptr) device_.api_->event_free(handle_, &err);
}

void Device::Event::record(lf_stream stream) const {
  lf_err err = sdk::make_err();
  require(device_.api_->event_record(handle_, stream, &err), err, device_.id_, "event_record");
}

bool Device::Event::passed() const {
  if ((device_.info_.abilities & LF_DEVICE_EVENT_QUERY) == 0 || !LF_HAS(device_.api_, event_query)) return false;
  int32_t done = 0;
  lf_err err = sdk::make_err();
  require(device_.api_->event_query(handle_, &done, &err), err, device_.id_, "event_query");
  return done != 0;
}

void Device::Event::wait() const {
  lf_err err = sdk::make_err();
  require(device_.api_->event_synchronize(handle_, &err), err, device_.id_, "event_synchronize");
}

void Device::upload(std::byte* to, const void* from, uint64_t bytes, lf_stream stream) const {
  lf_err err = sdk::make_err();
  require(api_->copy(device_, to, nullptr, from, bytes, stream, &err), err, id_, "copy to the device");
}

void Device::download(void* to, const std::byte* from, uint64_t bytes, lf_stream stream) const {
  lf_err err = sdk::make_err();
  require(api_->copy(nullptr, to, device_, from, bytes, stream, &err), err, id_, "copy to the host");
}

void Device::upload_now(std::byte* to, const void* from, uint64_t bytes) const {
  const Memory staging(*this, bytes, LF_MEMORY_PINNED_HOST);
  if (bytes > 0) std::memcpy(staging.data(), from, bytes);
  upload(to, staging.data(), bytes, nullptr);
  synchronize();
}

void Device::download_now(void* to, const std::byte* from, uint64_t bytes) const {
  const Memory staging(*this, bytes, LF_MEMORY_PINNED_HOST);
  download(staging.data(), from, bytes, nullptr);
  synchronize();
  if (bytes > 0) std::memcpy(to, staging.data(), bytes);
}

void Device::fill_zero(std::byte* memory, uint64_t bytes, lf_stream stream) const {
  lf_err err = sdk::make_err();
  require(api_->fill(device_, memory, 0, bytes, stream, &err), err, id_, "fill");
}

void Device::wait_in(lf_stream stream, const Event& event) const {
  lf_err err = sdk::make_err();
  require(api_->stream_wait(stream, event.handle(), &err), err, id_, "stream_wait");
}

Device::Memory::Memory(const Device& device, uint64_t bytes, int32_t kind)
    : device_(&device), bytes_(bytes), kind_(kind) {
  if (bytes == 0) return;
  lf_err err = sdk::make_err();
  void* memory = nullptr;
  const int32_t code = device.api_->memory_alloc(device.device_, bytes, kind, &memory, &err);
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
  if (data_ != nullptr) device_->api_->memory_free(device_->device_, data_, &err);
}

void Device::Memory::zero() const {
  if (bytes_ == 0) return;
  if (kind_ == LF_MEMORY_PINNED_HOST)
    std::memset(data_, 0, bytes_);
  else
    device_->fill_zero(data_, bytes_, nullptr);
}

}  // namespace lf
