// A device plugin in C++: the host's own memory as a card. ../c/device.c does the same in C.
#include "lf/plugin_api/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "lf/plugin_sdk/answer.hpp"
#include "lf/plugin_sdk/plugin.hpp"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"device","id":"template_cpp","version":"1","interfaces":["lf.device/1"],"torch":"none"})");

namespace {

using lf::sdk::Failure;
using lf::sdk::guard;

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMemoryBytes = uint64_t{1} << 36;  // a vendor's runtime would tell

// Memory is allocated from any thread.
class Device {
 public:
  void* allocate(uint64_t bytes, int32_t kind) {
    if (kind != LF_MEMORY_MAIN && kind != LF_MEMORY_PINNED_HOST)
      throw Failure(LF_E_UNSUPPORTED, "template_cpp: expected main or pinned host memory");
    if (bytes == 0) return nullptr;
    Block block(bytes > kMemoryBytes ? nullptr : std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) & ~63ull));
    const std::lock_guard lock(mutex_);
    if (block == nullptr) {
      ++n_out_of_memory_;
      throw Failure(LF_E_NOMEM_DEVICE, "template_cpp: no " + std::to_string(bytes) + " bytes left; shrink the work");
    }
    void* memory = block.get();
    blocks_.emplace(memory, Held{std::move(block), bytes});
    ++n_alloc_;
    allocated_ += bytes;
    peak_ = std::max(peak_, allocated_);
    return memory;
  }

  void release(void* memory) {
    if (memory == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end())
      throw Failure(LF_E_INVALID, "template_cpp: expected memory in use here; was it freed before?");
    allocated_ -= found->second.bytes;
    blocks_.erase(found);
  }

  lf_memory_stats stats() const {
    auto stats = lf::sdk::with_header<lf_memory_stats>();
    const std::lock_guard lock(mutex_);
    stats.total_bytes = kMemoryBytes;
    stats.free_bytes = kMemoryBytes - allocated_;
    stats.allocated_bytes = allocated_;
    stats.peak_bytes = peak_;
    stats.n_alloc = n_alloc_;
    stats.n_out_of_memory = n_out_of_memory_;
    return stats;
  }

  void require_unused() const {
    if (!blocks_.empty()) throw Failure(LF_E_INVALID, "template_cpp: expected all memory freed before close");
  }

 private:
  using Block = std::unique_ptr<void, decltype([](void* memory) { std::free(memory); })>;
  struct Held {
    Block block;
    uint64_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<void*, Held> blocks_;
  uint64_t allocated_ = 0, peak_ = 0, n_alloc_ = 0, n_out_of_memory_ = 0;
};

Device& of(lf_device device) {
  if (device == nullptr) throw Failure(LF_E_INVALID, "template_cpp: expected a device, got null");
  return *reinterpret_cast<Device*>(device);
}

int32_t probe(uint32_t* count, lf_sink, lf_err*) {
  *count = 1;  // a vendor's plugin says in the sink why it found none
  return LF_OK;
}

int32_t open_device(uint32_t ordinal, lf_device* out, lf_err* err) {
  return guard(err, [&] {
    if (ordinal != 0) throw Failure(LF_E_NO_DEVICE, "template_cpp: expected ordinal 0: there is one device");
    *out = reinterpret_cast<lf_device>(new Device);
  });
}

int32_t close_device(lf_device device, lf_err* err) {
  return guard(err, [&] {
    of(device).require_unused();
    delete &of(device);
  });
}

int32_t info(lf_device device, lf_device_info* out, lf_err* err) {
  return guard(err, [&] {
    of(device);
    auto made = lf::sdk::with_header<lf_device_info>();
    made.uid = 0;  // host memory; a card's is any other number
    std::strcpy(made.name, "host memory");
    made.memory_bytes = kMemoryBytes;
    made.torch_mode = LF_TORCH_BUILT_IN;
    std::strcpy(made.torch_device, "cpu");
    made.max_streams = 1;
    made.alignment = kAlignment;
    lf::sdk::answer(out, made);
  });
}

int32_t bind_thread(lf_device device, lf_err* err) {
  return guard(err, [&] { of(device); });
}

int32_t synchronize(lf_device device, lf_err* err) {
  return guard(err, [&] { of(device); });
}

int32_t memory_alloc(lf_device device, uint64_t bytes, int32_t kind, void** out, lf_err* err) {
  return guard(err, [&] { *out = of(device).allocate(bytes, kind); });
}

int32_t memory_free(lf_device device, void* memory, lf_err* err) {
  return guard(err, [&] { of(device).release(memory); });
}

int32_t memory_stats(lf_device device, lf_memory_stats* out, lf_err* err) {
  return guard(err, [&] { lf::sdk::answer(out, of(device).stats()); });
}

void require(const void* memory, uint64_t bytes) {
  if (bytes > 0 && memory == nullptr) throw Failure(LF_E_INVALID, "template_cpp: expected memory, got null");
}

int32_t copy(lf_device, void* to, lf_device, const void* from, uint64_t bytes, lf_stream, lf_err* err) {
  return guard(err, [&] {  // a null device is host memory, which this one's is too
    require(to, bytes);
    require(from, bytes);
    if (bytes > 0) std::memmove(to, from, bytes);
  });
}

int32_t fill(lf_device device, void* memory, uint8_t value, uint64_t bytes, lf_stream, lf_err* err) {
  return guard(err, [&] {
    of(device);
    require(memory, bytes);
    if (bytes > 0) std::memset(memory, value, bytes);
  });
}

const lf_device_api kTable = [] {
  auto api = lf::sdk::with_header<lf_device_api>();
  api.probe = probe;
  api.open = open_device;
  api.close = close_device;
  api.info = info;
  api.bind_thread = bind_thread;
  api.synchronize = synchronize;
  api.memory_alloc = memory_alloc;
  api.memory_free = memory_free;
  api.memory_stats = memory_stats;
  api.copy = copy;
  api.fill = fill;
  return api;
}();

const lf::sdk::Interface kInterfaces[] = {{LF_DEVICE_INTERFACE, &kTable}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_DEVICE, "template_cpp", "1");

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
