// NVIDIA's runtime library, opened when the plugin is used: so that it loads where there is none, and says why.
#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "hardware/native_failure.h"

namespace lf::cuda {

using Environment = std::function<std::optional<std::string>(const char* name)>;

// A call of NVIDIA's failed; its domain is "cudart" or "nccl".
using CudaFailure = hardware::NativeFailure;

// What the caller can do about a code: LF_E_...
int32_t meaning_of(cudaError_t error) noexcept;

class Runtime {
 public:
  // The copy that this process has loaded already (LibTorch's), else the one under LF_CUDA_HOME, else the loader's
  // choice. Throws LF_E_NO_DEVICE with what was tried.
  explicit Runtime(const Environment& environment);

  std::string path() const { return path_; }
  // Throws CudaFailure for anything but success, and clears the runtime's own memory of it.
  void check(cudaError_t error, const std::string& what) const;
  // Lets two GPUs reach each other's memory where they can, once in a process: copies between them then go straight
  // across instead of by way of the host.
  void connect(int one, int other) const;

  decltype(&::cudaGetErrorString) get_error_string;
  decltype(&::cudaGetLastError) get_last_error;
  decltype(&::cudaDriverGetVersion) driver_get_version;
  decltype(&::cudaRuntimeGetVersion) runtime_get_version;
  decltype(&::cudaGetDeviceCount) get_device_count;
  decltype(&::cudaGetDevice) get_device;
  decltype(&::cudaSetDevice) set_device;
  decltype(&::cudaGetDeviceProperties) get_device_properties;
  decltype(&::cudaDeviceGetPCIBusId) device_get_pci_bus_id;
  decltype(&::cudaDeviceGetStreamPriorityRange) device_get_stream_priority_range;
  decltype(&::cudaDeviceCanAccessPeer) device_can_access_peer;
  decltype(&::cudaDeviceEnablePeerAccess) device_enable_peer_access;
  decltype(&::cudaDeviceSynchronize) device_synchronize;
  decltype(&::cudaMalloc) malloc;
  decltype(&::cudaFree) free;
  decltype(&::cudaMallocHost) malloc_host;
  decltype(&::cudaFreeHost) free_host;
  decltype(&::cudaMemGetInfo) mem_get_info;
  decltype(&::cudaMemcpyAsync) memcpy_async;
  decltype(&::cudaMemcpyPeerAsync) memcpy_peer_async;
  decltype(&::cudaMemsetAsync) memset_async;
  decltype(&::cudaStreamCreateWithPriority) stream_create_with_priority;
  decltype(&::cudaStreamDestroy) stream_destroy;
  decltype(&::cudaStreamSynchronize) stream_synchronize;
  decltype(&::cudaStreamWaitEvent) stream_wait_event;
  decltype(&::cudaEventCreateWithFlags) event_create_with_flags;
  decltype(&::cudaEventDestroy) event_destroy;
  decltype(&::cudaEventRecord) event_record;
  decltype(&::cudaEventQuery) event_query;
  decltype(&::cudaEventSynchronize) event_synchronize;
  decltype(&::cudaEventElapsedTime) event_elapsed_time;
  const char* (*simulated)();  // ours alone: says that there is no GPU behind; null elsewhere

 private:
  std::string path_;
  mutable std::mutex mutex_;
  mutable std::set<std::pair<int, int>> connected_;  // asked about, the smaller first
};

// Opens `soname` as the process has it, else from LF_CUDA_HOME's folders, else by the loader's rules. Null, and `tried`
// says why, where there is none.
void* open_library(const std::string& soname, const Environment& environment, std::string& tried);

// Makes a device current on this thread and the former one again at the end of the scope.
class CurrentDevice {
 public:
  CurrentDevice(const Runtime& runtime, int ordinal);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const Runtime& runtime_;
  int before_ = 0, ordinal_;
};

}  // namespace lf::cuda
