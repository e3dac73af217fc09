// The functions of the CUDA runtime that plugins/cuda asks for, over the simulated XRE that is linked in.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include <cuda_runtime_api.h>

#include "xpu/runtime.h"

#define LF_SIM_CUDA extern "C" LF_SIM_EXPORT  // the toolkit's declarations say nothing of visibility

namespace {

using Clock = std::chrono::steady_clock;

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t told(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t of_xre(int code) {
  switch (std::abs(code)) {
    case 0:
      return cudaSuccess;
    case XPUERR_INVALID_DEVICE:
      return told(cudaErrorInvalidDevice);
    case XPUERR_NO_DEVICE:
      return told(cudaErrorNoDevice);
    case XPUERR_DEVICE_MEMORY:
      return told(cudaErrorMemoryAllocation);
    case XPUERR_BUSY:
      return told(cudaErrorNotReady);
    case XPUERR_DMA_ABORT:
      return told(cudaErrorIllegalAddress);
    case XPUERR_CLOSED:
    case XPUERR_INVALID_PARAMETER:
      return told(cudaErrorInvalidValue);
    default:
      return told(cudaErrorLaunchFailure);
  }
}

// A scripted fault, or what `body` returns.
template <typename Body>
cudaError_t entry(const char* function, Body&& body) {
  if (const int code = lf_sim_xpu_fault(function); code != 0) return told(static_cast<cudaError_t>(code));
  return of_xre(body());
}

int physical(int ordinal) {
  uint64_t id = 0;
  xpu_device_get_attr(&id, XPUATTR_DEVID, ordinal);
  return static_cast<int>(id);
}

// cudaDeviceSynchronize waits for all of a device's streams; XRE has no such call.
struct Streams {
  std::mutex mutex;
  std::set<std::pair<int, XPUStream>> all;
  std::map<XPUStream, int> priorities;
};
Streams& streams() {
  static auto* const list = new Streams;
  return *list;
}

struct Moment {
  std::atomic<Clock::rep> ticks = 0;
};

struct TimedEvent {
  XPUEvent event;
  std::shared_ptr<Moment> passed;
};

TimedEvent& of(cudaEvent_t event) { return *reinterpret_cast<TimedEvent*>(event); }

// Runs `work` on the stream.
template <typename Work>
int enqueue(cudaStream_t stream, Work work) {
  const auto run = [](void* argument) -> int {
    (*std::unique_ptr<Work>(static_cast<Work*>(argument)))();
    return 0;
  };
  auto held = std::make_unique<Work>(std::move(work));
  const int code = lf_sim_xpu_enqueue(stream, run, held.get());
  if (code == 0) held.release();
  return code;
}

}  // namespace

LF_SIM_CUDA const char* cudaGetErrorString(cudaError_t error) {
  static thread_local char text[64];
  std::snprintf(text, sizeof text, "simulated CUDA error %d", static_cast<int>(error));
  return text;
}

LF_SIM_CUDA cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
LF_SIM_CUDA cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
LF_SIM_CUDA cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

LF_SIM_CUDA cudaError_t cudaGetDeviceCount(int* count) {
  return entry("cudaGetDeviceCount", [&] { return xpu_device_count(count); });
}
LF_SIM_CUDA cudaError_t cudaGetDevice(int* device) {
  return entry("cudaGetDevice", [&] { return xpu_current_device(device); });
}
LF_SIM_CUDA cudaError_t cudaSetDevice(int device) {
  return entry("cudaSetDevice", [&] { return xpu_set_device(device); });
}

LF_SIM_CUDA cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return entry("cudaGetDeviceProperties", [&] {
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "Simulated GPU");
    properties->major = 9;
    uint64_t bytes = 0;
    const int code = xpu_device_get_attr(&bytes, XPUATTR_MEM_MAIN_CAPACITY, device);
    properties->totalGlobalMem = bytes;
    return code;
  });
}

LF_SIM_CUDA cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int device) {
  return entry("cudaDeviceGetPCIBusId", [&] {
    uint64_t pci = 0;
    const int code = xpu_device_get_attr(&pci, XPUATTR_PCI, device);
    std::snprintf(text, room, "%04X:%02X:%02X.0", static_cast<unsigned>(pci >> 16),
                  static_cast<unsigned>(pci >> 8) & 255, static_cast<unsigned>(pci >> 3) & 31);
    return code;
  });
}

LF_SIM_CUDA cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
// LF_SIM_CUDA_PEERS=0: GPUs on different root complexes.
LF_SIM_CUDA cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  return entry("cudaDeviceCanAccessPeer", [&] {
    const char* peers = std::getenv("LF_SIM_CUDA_PEERS");
    *can = peers == nullptr || std::strcmp(peers, "0") != 0;
    return 0;
  });
}

LF_SIM_CUDA cudaError_t cudaDeviceEnablePeerAccess(int to, unsigned) {
  static std::mutex mutex;
  static auto* const enabled = new std::set<std::pair<int, int>>;
  if (const int code = lf_sim_xpu_fault("cudaDeviceEnablePeerAccess"); code != 0)
    return told(static_cast<cudaError_t>(code));
  int from = 0, can = 0;
  xpu_current_device(&from);
  cudaDeviceCanAccessPeer(&can, from, to);
  if (can == 0) return told(cudaErrorPeerAccessUnsupported);
  const std::lock_guard lock(mutex);
  return enabled->emplace(from, to).second ? cudaSuccess : told(cudaErrorPeerAccessAlreadyEnabled);
}

LF_SIM_CUDA cudaError_t cudaDeviceSynchronize() {
  return entry("cudaDeviceSynchronize", [] {
    int device = 0, code = xpu_current_device(&device);
    std::set<std::pair<int, XPUStream>> all;
    {
      const std::lock_guard lock(streams().mutex);
      all = streams().all;
    }
    if (code == 0) code = xpu_wait(nullptr);
    for (const auto& [owner, stream] : all)
      if (owner == device && code == 0) code = xpu_wait(stream);
    return code;
  });
}

LF_SIM_CUDA cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return entry("cudaMalloc", [&] { return xpu_malloc(memory, bytes, XPU_MEM_MAIN); });
}

LF_SIM_CUDA cudaError_t cudaFree(void* memory) {
  return entry("cudaFree", [&] {
    cudaDeviceSynchronize();
    return xpu_free(memory);
  });
}
LF_SIM_CUDA cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return entry("cudaMallocHost", [&] { return xpu_host_alloc(memory, bytes, 0); });
}
LF_SIM_CUDA cudaError_t cudaFreeHost(void* memory) {
  return entry("cudaFreeHost", [&] { return xpu_host_free(memory); });
}

LF_SIM_CUDA cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return entry("cudaMemGetInfo", [&] {
    int device = 0;
    const int code = xpu_current_device(&device);
    uint64_t all = 0, used = 0;
    lf_sim_xpu_memory(physical(device), XPU_MEM_MAIN, &all, &used);
    *total = all;
    *free = all - used;
    return code;
  });
}

LF_SIM_CUDA cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                        cudaStream_t stream) {
  return entry("cudaMemcpyAsync", [&] {
    switch (kind) {
      case cudaMemcpyHostToDevice:
        return xpu_memcpy_async(to, from, bytes, XPU_HOST_TO_DEVICE, stream);
      case cudaMemcpyDeviceToHost:
        return xpu_memcpy_async(to, from, bytes, XPU_DEVICE_TO_HOST, stream);
      case cudaMemcpyDeviceToDevice:
        return xpu_memcpy_async(to, from, bytes, XPU_DEVICE_TO_DEVICE, stream);
      default:
        return -XPUERR_INVALID_PARAMETER;
    }
  });
}

LF_SIM_CUDA cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                            cudaStream_t stream) {
  return entry("cudaMemcpyPeerAsync", [&] {
    // Like CUDA's, ordered after the earlier work of both devices' default streams.
    for (const int device : {from_device, to_device}) {
      int before = 0;
      xpu_current_device(&before);
      xpu_set_device(device);
      xpu_wait(nullptr);
      xpu_set_device(before);
    }
    if (stream != nullptr) xpu_wait(stream);
    return xpu_memcpy_peer(to_device, to, from_device, from, bytes);
  });
}

LF_SIM_CUDA cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return entry("cudaMemsetAsync", [&] {
    void* host = lf_sim_xpu_bytes(memory, bytes);
    return host == nullptr ? -XPUERR_INVALID_PARAMETER : enqueue(stream, [=] { std::memset(host, value, bytes); });
  });
}

LF_SIM_CUDA cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  if (priority > 0 || priority < -5) return told(cudaErrorInvalidValue);
  return entry("cudaStreamCreateWithPriority", [&] {
    void* made = nullptr;
    const int code = xpu_stream_create(&made);
    *stream = static_cast<cudaStream_t>(made);
    int device = 0;
    xpu_current_device(&device);
    const std::lock_guard lock(streams().mutex);
    if (code == 0) streams().all.emplace(device, made);
    if (code == 0) streams().priorities[made] = priority;
    return code;
  });
}

LF_SIM_CUDA cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return entry("cudaStreamGetPriority", [&] {
    const std::lock_guard lock(streams().mutex);
    const auto known = streams().priorities.find(stream);
    if (known == streams().priorities.end()) return -XPUERR_CLOSED;
    *priority = known->second;
    return 0;
  });
}

LF_SIM_CUDA cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return entry("cudaStreamDestroy", [&] {
    {
      const std::lock_guard lock(streams().mutex);
      std::erase_if(streams().all, [&](const auto& known) { return known.second == stream; });
    }
    return xpu_stream_destroy(stream);
  });
}
LF_SIM_CUDA cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return entry("cudaStreamSynchronize", [&] { return xpu_wait(stream); });
}
LF_SIM_CUDA cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return entry("cudaStreamWaitEvent", [&] { return xpu_stream_wait_event(stream, of(event).event); });
}

LF_SIM_CUDA cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return entry("cudaEventCreateWithFlags", [&] {
    auto* made = new TimedEvent{nullptr, std::make_shared<Moment>()};
    *event = reinterpret_cast<cudaEvent_t>(made);
    return xpu_event_create(&made->event);
  });
}

LF_SIM_CUDA cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return entry("cudaEventDestroy", [&] {
    const std::unique_ptr<TimedEvent> gone(&of(event));
    return xpu_event_destroy(gone->event);
  });
}

LF_SIM_CUDA cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return entry("cudaEventRecord", [&] {
    const int code =
        enqueue(stream, [passed = of(event).passed] { passed->ticks = Clock::now().time_since_epoch().count(); });
    return code != 0 ? code : xpu_event_record(of(event).event, stream);
  });
}
LF_SIM_CUDA cudaError_t cudaEventQuery(cudaEvent_t event) {
  return entry("cudaEventQuery", [&] { return xpu_event_query(of(event).event); });
}
LF_SIM_CUDA cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return entry("cudaEventSynchronize", [&] { return xpu_event_wait(of(event).event); });
}

LF_SIM_CUDA cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (xpu_event_query(of(from).event) != 0 || xpu_event_query(of(to).event) != 0) return told(cudaErrorNotReady);
  for (const cudaEvent_t event : {from, to})
    if (of(event).passed->ticks == 0) return told(cudaErrorInvalidResourceHandle);  // never recorded
  const Clock::duration between(of(to).passed->ticks - of(from).passed->ticks);
  *milliseconds = std::chrono::duration<float, std::milli>(between).count();
  return cudaSuccess;
}
