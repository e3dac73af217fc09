#include "device.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace lf::cuda {
namespace {

constexpr uint64_t kUidBase = 0x6375646100000000;  // "cuda": apart from other plugins' devices
constexpr uint32_t kAlignment = 256;               // of cudaMalloc, by its documentation

void copy_text(char* out, size_t room, std::string_view text) {
  const size_t n = std::min(text.size(), room - 1);
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
}

}  // namespace

Device::Device(const Runtime& runtime, int ordinal) : runtime_(runtime), ordinal_(ordinal) {
  runtime_.check(runtime_.get_device_count(&device_count_), "cudaGetDeviceCount");
  if (ordinal_ < 0 || ordinal_ >= device_count_)
    throw sdk::Failure(LF_E_NO_DEVICE,
                       fmt::format("cuda: there is no device {}; this process sees {}", ordinal_, device_count_));
  runtime_.check(runtime_.get_device_properties(&properties_, ordinal_), "cudaGetDeviceProperties");
  runtime_.check(runtime_.device_get_pci_bus_id(bus_, sizeof bus_, ordinal_), "cudaDeviceGetPCIBusId");
}

Device::~Device() {
  try {
    for (const auto& [memory, block] : blocks_) free_block(memory, block);
  } catch (const sdk::Failure&) {  // a lost device: its memory goes with the process
  }
}

void Device::describe(lf_device_info& info) const {
  info.uid = kUidBase + static_cast<uint64_t>(ordinal_) + 1;
  copy_text(info.name, sizeof info.name,
            std::string(properties_.name) + (runtime_.simulated != nullptr ? " (SIMULATED)" : ""));
  copy_text(info.arch, sizeof info.arch, fmt::format("sm_{}{}", properties_.major, properties_.minor));
  copy_text(info.bus, sizeof info.bus, bus_);
  info.memory_bytes = properties_.totalGlobalMem;
  info.fast_memory_bytes = 0;
  info.abilities = LF_DEVICE_EVENT_QUERY | LF_DEVICE_EVENT_TIMING | LF_DEVICE_ASYNC_COPY | LF_DEVICE_ASYNC_FILL |
                   LF_DEVICE_SYNCHRONIZE | LF_DEVICE_MEMORY_INFO | LF_DEVICE_STREAM_PRIORITY |
                   LF_DEVICE_COLLECTIVES_BESIDE_COMPUTE;
  if (device_count_ > 1) info.abilities |= LF_DEVICE_PEER_COPY;
  if (runtime_.simulated != nullptr) info.abilities |= LF_DEVICE_SIMULATED;
  info.torch_mode = LF_TORCH_LOAD_LIBRARY;
  info.torch_index = ordinal_;
  copy_text(info.torch_device, sizeof info.torch_device, "cuda");
  info.max_streams = UINT32_MAX;
  info.alignment = kAlignment;
}

std::string Device::health() const {
  int driver = 0, version = 0;
  runtime_.driver_get_version(&driver);
  runtime_.runtime_get_version(&version);
  const CurrentDevice current(runtime_, ordinal_);
  const cudaError_t state = runtime_.device_synchronize();
  return fmt::format(R"({{"state":"{}","cause":"{}","driver":"{}.{}","runtime":"{}.{}","libraries":"{}"}})",
                     state == cudaSuccess ? "ok" : "lost", state == cudaSuccess ? "" : runtime_.get_error_string(state),
                     driver / 1000, driver / 10 % 100, version / 1000, version / 10 % 100, runtime_.path());
}

void* Device::allocate(uint64_t bytes, int32_t kind) {
  const CurrentDevice current(runtime_, ordinal_);
  void* memory = nullptr;
  const size_t size = std::max<uint64_t>(bytes, 1);
  cudaError_t error = cudaSuccess;
  switch (kind) {
    case LF_MEMORY_MAIN:
      error = runtime_.malloc(&memory, size);
      break;
    case LF_MEMORY_PINNED_HOST:
      error = runtime_.malloc_host(&memory, size);
      break;
    default:
      throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("cuda: there is no memory of kind {}", kind));
  }
  const std::lock_guard lock(mutex_);
  if (error == cudaErrorMemoryAllocation && kind == LF_MEMORY_PINNED_HOST) {
    runtime_.get_last_error();
    throw CudaFailure(LF_E_NOMEM_HOST, error, "cudart", fmt::format("pinning {} bytes of host memory failed", bytes));
  }
  if (error == cudaErrorMemoryAllocation) ++counters_.n_out_of_memory;
  runtime_.check(error, fmt::format("allocating {} bytes on cuda:{}, {} bytes allocated before", bytes, ordinal_,
                                    counters_.allocated_bytes));
  blocks_[memory] = {bytes, kind};
  if (kind == LF_MEMORY_MAIN) {
    ++counters_.n_alloc;
    counters_.allocated_bytes += bytes;
    counters_.peak_bytes = std::max(counters_.peak_bytes, counters_.allocated_bytes);
  }
  return memory;
}

void Device::release(void* memory) {
  Block block;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(memory);
    if (found == blocks_.end())
      throw sdk::Failure(LF_E_INVALID,
                         fmt::format("cuda:{}: {} is not allocated here, or was freed already", ordinal_, memory));
    block = found->second;
    blocks_.erase(found);
    if (block.kind == LF_MEMORY_MAIN) counters_.allocated_bytes -= block.bytes;
  }
  free_block(memory, block);
}

void Device::free_block(void* memory, const Block& block) const {
  const CurrentDevice current(runtime_, ordinal_);
  runtime_.check(block.kind == LF_MEMORY_MAIN ? runtime_.free(memory) : runtime_.free_host(memory), "cudaFree");
}

lf_memory_stats Device::stats() const {
  lf_memory_stats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = counters_;
  }
  const CurrentDevice current(runtime_, ordinal_);
  size_t free = 0, total = 0;
  runtime_.check(runtime_.mem_get_info(&free, &total), "cudaMemGetInfo");
  stats.total_bytes = total;
  stats.free_bytes = free;
  return stats;
}

Stream::Stream(Device& device, int32_t priority) : device_(device) {
  const Runtime& runtime = device_.runtime();
  const CurrentDevice current(runtime, device_.ordinal());
  int least = 0, greatest = 0;  // CUDA counts the other way: the greatest priority is the smallest number
  runtime.check(runtime.device_get_stream_priority_range(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  runtime.check(
      runtime.stream_create_with_priority(&native_, cudaStreamNonBlocking, std::clamp(-priority, greatest, least)),
      "cudaStreamCreateWithPriority");
}

Stream::~Stream() { device_.runtime().stream_destroy(native_); }

Event::Event(Device& device) : device_(device) {
  const Runtime& runtime = device_.runtime();
  const CurrentDevice current(runtime, device_.ordinal());
  runtime.check(runtime.event_create_with_flags(&native_, cudaEventDefault), "cudaEventCreateWithFlags");
}

Event::~Event() { device_.runtime().event_destroy(native_); }

void Event::record(cudaStream_t stream) {
  const CurrentDevice current(device_.runtime(), device_.ordinal());
  device_.runtime().check(device_.runtime().event_record(native_, stream), "cudaEventRecord");
}

bool Event::done() const {
  const cudaError_t state = device_.runtime().event_query(native_);
  if (state == cudaErrorNotReady) return device_.runtime().get_last_error(), false;
  device_.runtime().check(state, "cudaEventQuery");
  return true;
}

void Event::wait() const {
  device_.runtime().check(device_.runtime().event_synchronize(native_), "cudaEventSynchronize");
}

double Event::milliseconds_until(const Event& later) const {
  float milliseconds = 0;
  device_.runtime().check(device_.runtime().event_elapsed_time(&milliseconds, native_, later.native_),
                          "cudaEventElapsedTime");
  return milliseconds;
}

void copy(CopyEnd to, CopyEnd from, uint64_t bytes, Device* on, cudaStream_t stream) {
  if (bytes == 0) return;
  if (to.device == nullptr && from.device == nullptr) {
    if (on != nullptr) on->runtime().check(on->runtime().stream_synchronize(stream), "cudaStreamSynchronize");
    std::memcpy(to.memory, from.memory, bytes);
    return;
  }
  const Runtime& runtime = on->runtime();
  const CurrentDevice current(runtime, on->ordinal());
  if (to.device != nullptr && from.device != nullptr && to.device != from.device) {
    runtime.connect(from.device->ordinal(), to.device->ordinal());
    runtime.check(
        runtime.memcpy_peer_async(to.memory, to.device->ordinal(), from.memory, from.device->ordinal(), bytes, stream),
        fmt::format("cudaMemcpyPeerAsync of {} bytes, cuda:{} to cuda:{}", bytes, from.device->ordinal(),
                    to.device->ordinal()));
    return;
  }
  const cudaMemcpyKind kind = to.device == nullptr     ? cudaMemcpyDeviceToHost
                              : from.device == nullptr ? cudaMemcpyHostToDevice
                                                       : cudaMemcpyDeviceToDevice;
  runtime.check(runtime.memcpy_async(to.memory, from.memory, bytes, kind, stream),
                fmt::format("cudaMemcpyAsync of {} bytes", bytes));
}

}  // namespace lf::cuda
