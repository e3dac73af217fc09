#include "device.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace lf::kunlun {
namespace {

constexpr uint64_t kChunkBytes = 64 << 10;
constexpr uint64_t kUidBase = 0x6B756E6C756E0000;  // "kunlun": apart from other plugins' devices

// The vendor's own simulator numbers its devices from 64 on. One build fills in nothing and reports success.
bool has_simulator_id(const Runtime& runtime, int ordinal, int count) {
  if (runtime.xre().device_list == nullptr) return false;
  std::vector<int> ids(std::max(count, kMaxDevices), -1);
  return runtime.xre().device_list(ids.data()) == 0 && ids[ordinal] >= kMaxDevices;
}

const char* architecture(uint64_t model) {
  return model < kFirstKl2Model ? "KL1" : model < kFirstKl3Model ? "KL2" : "KL3";
}

void copy_text(char* out, size_t room, std::string_view text) {
  const size_t n = std::min(text.size(), room - 1);
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
}

}  // namespace

Device::Device(const Runtime& runtime, int ordinal) : runtime_(runtime), ordinal_(ordinal) {
  const Xre& xre = runtime_.xre();
  runtime_.check(xre.device_count(&device_count_), "xpu_device_count");
  if (ordinal_ < 0 || ordinal_ >= device_count_)
    throw VendorFailure(LF_E_NO_DEVICE, kInvalidDevice,
                        fmt::format("kunlun: there is no device {}; this process sees {}", ordinal_, device_count_));
  const CurrentDevice current(runtime_, ordinal_);  // a build reads attributes of the current device only
  const auto attribute = [&](Attribute which) {
    uint64_t value = 0;
    runtime_.check(xre.device_get_attr(&value, which, ordinal_), fmt::format("xpu_device_get_attr({})", int{which}));
    return value;
  };
  model_ = attribute(kAttributeModel);
  pci_ = PciAddress::unpack(attribute(kAttributePci));
  main_bytes_ = attribute(kAttributeMainBytes);
  l3_bytes_ = attribute(kAttributeL3Bytes);
  // Mappable memory of a card is scarce and slow, so it is used only where there is no card.
  if (runtime_.simulated() && xre.mmap != nullptr) allocation_kind_ = kMemoryMappable;
}

Device::~Device() {
  try {
    synchronize();
  } catch (const sdk::Failure&) {
    return;  // a lost device: its memory goes with the process
  }
  for (const auto& [memory, block] : blocks_) free_block(const_cast<void*>(memory), block);
  for (const auto& [value, chunk] : chunks_) runtime_.xre().host_free(chunk);
}

void Device::describe(lf_device_info& info) const {
  const Xre& xre = runtime_.xre();
  const bool simulated = runtime_.simulated() || has_simulator_id(runtime_, ordinal_, device_count_);
  info.uid = kUidBase + static_cast<uint64_t>(ordinal_) + 1;
  copy_text(info.name, sizeof info.name,
            fmt::format("Kunlun {} model {}{}", architecture(model_), model_, simulated ? " (SIMULATED)" : ""));
  copy_text(info.arch, sizeof info.arch, architecture(model_));
  copy_text(info.bus, sizeof info.bus, pci_.text());
  info.memory_bytes = main_bytes_;
  info.fast_memory_bytes = l3_bytes_;
  info.abilities = LF_DEVICE_ASYNC_COPY | LF_DEVICE_ASYNC_FILL | LF_DEVICE_SYNCHRONIZE;
  if (xre.event_query != nullptr) info.abilities |= LF_DEVICE_EVENT_QUERY;
  if (xre.memcpy_peer != nullptr && device_count_ > 1) info.abilities |= LF_DEVICE_PEER_COPY;
  if (runtime_.management() != nullptr && runtime_.management()->memory(pci_)) info.abilities |= LF_DEVICE_MEMORY_INFO;
  if (simulated) info.abilities |= LF_DEVICE_SIMULATED;
  info.torch_mode = LF_TORCH_PRIVATE_USE_1;
  info.torch_index = ordinal_;
  copy_text(info.torch_device, sizeof info.torch_device, "kunlun");
  info.max_streams = kMaxStreams;
  info.alignment = kAlignment;
}

std::string Device::health() const {
  uint32_t driver[2] = {}, version[2] = {};
  runtime_.xre().get_driver_version(&driver[0], &driver[1]);
  runtime_.xre().get_runtime_version(&version[0], &version[1]);
  std::string trouble = runtime_.cause_of_death().value_or("");
  std::replace_if(
      trouble.begin(), trouble.end(), [](char c) { return c == '"' || c == '\\' || c < ' '; }, '\'');
  return fmt::format(
      R"({{"state":"{}","cause":"{}","driver":"{}.{}","runtime":"{}.{}","libraries":"{}","simulated":{}}})",
      trouble.empty() ? "ok" : "lost", trouble, driver[0], driver[1], version[0], version[1],
      runtime_.installation().root.string(), runtime_.simulated());
}

void* Device::allocate(uint64_t bytes, int32_t kind) {
  const Xre& xre = runtime_.xre();
  runtime_.require_alive();
  const CurrentDevice current(runtime_, ordinal_);
  Block block{bytes, kind, nullptr};
  void* memory = nullptr;
  int code = 0;
  std::string what = fmt::format("allocating {} bytes", bytes);
  switch (kind) {
    case LF_MEMORY_MAIN:
      code = xre.malloc(&memory, std::max<uint64_t>(bytes, 1), allocation_kind_);
      break;
    case LF_MEMORY_FAST:
      code = xre.malloc(&memory, std::max<uint64_t>(bytes, 1), kMemoryL3);
      what += " of L3";
      break;
    case LF_MEMORY_PINNED_HOST:
      code = xre.host_alloc(&memory, std::max<uint64_t>(bytes, 1), 0);
      what += " of host memory";
      block.host = memory;
      break;
    default:
      throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("kunlun: there is no memory of kind {}", kind));
  }
  const std::unique_lock lock(memory_mutex_);
  if (code != 0) {
    if (kunlun::describe(code).meaning == LF_E_NOMEM_DEVICE) ++counters_.n_out_of_memory;
    runtime_.check(
        code, fmt::format("{} on kunlun:{}, {} bytes allocated before", what, ordinal_, counters_.allocated_bytes));
  }
  if (reinterpret_cast<uintptr_t>(memory) % kAlignment != 0)
    throw sdk::Failure(LF_E_BUG, fmt::format("kunlun: xpu_malloc returned {}, not aligned to {}", memory, kAlignment));
  if (kind == LF_MEMORY_MAIN && host_visible())
    runtime_.check(xre.mmap(&block.host, memory, std::max<uint64_t>(bytes, 1)), "xpu_mmap");
  blocks_[memory] = block;
  if (kind != LF_MEMORY_PINNED_HOST) {
    ++counters_.n_alloc;
    counters_.allocated_bytes += bytes;
    counters_.peak_bytes = std::max(counters_.peak_bytes, counters_.allocated_bytes);
  }
  return memory;
}

void Device::release(void* memory) {
  if (runtime_.cause_of_death()) return;  // the process ends soon, and the runtime answers nothing sensible
  {
    const std::lock_guard lock(settling_);
    if (busy_) wait_for_all();
  }
  Block block;
  {
    const std::unique_lock lock(memory_mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end())
      throw sdk::Failure(LF_E_INVALID,
                         fmt::format("kunlun:{}: {} is not allocated here, or was freed already", ordinal_, memory));
    block = found->second;
    blocks_.erase(found);
    if (block.kind != LF_MEMORY_PINNED_HOST) counters_.allocated_bytes -= block.bytes;
  }
  free_block(memory, block);
}

void Device::free_block(void* memory, const Block& block) const {
  const CurrentDevice current(runtime_, ordinal_);
  const Xre& xre = runtime_.xre();
  runtime_.check(block.kind == LF_MEMORY_PINNED_HOST ? xre.host_free(memory) : xre.free(memory), "xpu_free");
}

lf_memory_stats Device::stats() const {
  lf_memory_stats stats;
  {
    const std::shared_lock lock(memory_mutex_);
    stats = counters_;
  }
  stats.total_bytes = main_bytes_;
  if (const Management* management = runtime_.management())
    if (const auto memory = management->memory(pci_)) {
      stats.total_bytes = memory->total_bytes;
      stats.free_bytes = memory->free_bytes;
    }
  return stats;
}

std::map<const void*, Device::Block>::const_iterator Device::block_of(const void* memory, uint64_t bytes) const {
  auto found = blocks_.upper_bound(memory);
  if (found == blocks_.begin()) return blocks_.end();
  --found;
  const auto offset = static_cast<const std::byte*>(memory) - static_cast<const std::byte*>(found->first);
  const uint64_t size = std::max<uint64_t>(found->second.bytes, 1);
  return static_cast<uint64_t>(offset) < size && bytes <= size - offset ? found : blocks_.end();
}

bool Device::owns(const void* memory) const {
  const std::shared_lock lock(memory_mutex_);
  const auto found = block_of(memory, 0);
  return found != blocks_.end() && found->second.kind != LF_MEMORY_PINNED_HOST;
}

void* Device::host_view(const void* memory, uint64_t bytes) const {
  const std::shared_lock lock(memory_mutex_);
  const auto found = block_of(memory, bytes);
  if (found == blocks_.end() || found->second.host == nullptr) return nullptr;
  return static_cast<std::byte*>(found->second.host) +
         (static_cast<const std::byte*>(memory) - static_cast<const std::byte*>(found->first));
}

XpuStream Device::create_stream() {
  runtime_.require_alive();
  const CurrentDevice current(runtime_, ordinal_);
  const std::unique_lock lock(stream_mutex_);
  if (streams_.size() >= kMaxStreams)
    throw sdk::Failure(
        LF_E_UNSUPPORTED,
        fmt::format("kunlun:{}: {} streams are open, the most the runtime has; free some", ordinal_, kMaxStreams));
  XpuStream stream = nullptr;
  runtime_.check(runtime_.xre().stream_create(&stream), "xpu_stream_create");
  streams_.insert(stream);
  return stream;
}

void Device::destroy_stream(XpuStream stream) {
  if (runtime_.cause_of_death()) return;
  const CurrentDevice current(runtime_, ordinal_);
  const int last_error = runtime_.xre().wait(stream);
  {
    const std::unique_lock lock(stream_mutex_);
    streams_.erase(stream);
    runtime_.check(runtime_.xre().stream_destroy(stream), "xpu_stream_destroy");
  }
  runtime_.check(last_error, "xpu_wait");
}

void Device::note_work(XpuStream stream) const {
  busy_ = true;
  if (stream == nullptr) default_stream_busy_ = true;
}

// Under the lock: a second thread that finds the flag cleared must not go on while the first one still waits.
void Device::settle() const {
  const std::lock_guard lock(settling_);
  if (!default_stream_busy_) return;
  const CurrentDevice current(runtime_, ordinal_);
  default_stream_busy_ = false;  // before the wait: work that another thread adds meanwhile is not forgotten
  runtime_.check(runtime_.xre().wait(nullptr), "xpu_wait");
}

void Device::synchronize() const {
  const std::lock_guard lock(settling_);
  wait_for_all();
}

void Device::wait_for_all() const {
  runtime_.require_alive();
  busy_ = default_stream_busy_ = false;
  const CurrentDevice current(runtime_, ordinal_);
  const std::shared_lock lock(stream_mutex_);
  runtime_.check(runtime_.xre().wait(nullptr), "xpu_wait");  // the default stream
  for (const XpuStream stream : streams_) runtime_.check(runtime_.xre().wait(stream), "xpu_wait");
}

const void* Device::chunk_of(uint8_t value) {
  const std::lock_guard lock(chunk_mutex_);
  void*& chunk = chunks_[value];
  if (chunk == nullptr) {
    runtime_.check(runtime_.xre().host_alloc(&chunk, kChunkBytes, 0), "xpu_host_alloc");
    std::memset(chunk, value, kChunkBytes);
  }
  return chunk;
}

void Device::fill(void* memory, uint8_t value, uint64_t bytes, XpuStream stream) {
  if (bytes == 0) return;
  const Xre& xre = runtime_.xre();
  const CurrentDevice current(runtime_, ordinal_);
  note_work(stream);
  auto* to = static_cast<std::byte*>(memory);
  uint64_t done = std::min(bytes, kChunkBytes);
  runtime_.check(xre.memcpy_async(to, chunk_of(value), done, kHostToDevice, stream), "xpu_memcpy_async of a fill");
  for (uint64_t n; done < bytes; done += n) {
    n = std::min(done, bytes - done);
    runtime_.check(xre.memcpy_async(to + done, to, n, kDeviceToDevice, stream), "xpu_memcpy_async of a fill");
  }
}

}  // namespace lf::kunlun
