#include "runtime.h"

#include <algorithm>

#include <dlfcn.h>
#include <fmt/format.h>

namespace lf::cuda {
namespace fs = std::filesystem;
namespace {

// Of a toolkit, and of the wheels under a site's nvidia/.
constexpr const char* kFolders[] = {"lib64", "lib", "lib/x86_64-linux-gnu", "cu13/lib", "nccl/lib"};

std::string soname() { return fmt::format("libcudart.so.{}", CUDART_VERSION / 1000); }

// Those of which the runtime's header says that the process must be terminated and relaunched, or that leave no device.
bool is_beyond_repair(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
    case cudaErrorDevicesUnavailable:
      return true;
    default:
      return false;
  }
}

}  // namespace

int32_t meaning_of(cudaError_t error) noexcept {
  if (is_beyond_repair(error)) return LF_E_DEVICE_LOST;
  switch (error) {
    case cudaSuccess:
      return LF_OK;
    case cudaErrorMemoryAllocation:
      return LF_E_NOMEM_DEVICE;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
      return LF_E_NO_DEVICE;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorInvalidMemcpyDirection:
      return LF_E_INVALID;
    case cudaErrorNotSupported:
      return LF_E_UNSUPPORTED;
    case cudaErrorNotReady:
      return LF_E_NOT_READY;
    default:
      return LF_E_BUG;
  }
}

void* open_library(const std::string& soname, const Environment& environment, std::string& tried) {
  if (void* loaded = dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) return loaded;
  std::string files = soname;
  if (const auto home = environment("LF_CUDA_HOME")) {
    files.clear();  // the named place alone
    for (const char* folder : kFolders) {
      const fs::path file = fs::path(*home) / folder / soname;
      if (void* opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return opened;
      tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
    }
    return nullptr;
  }
  void* opened = dlopen(files.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (opened == nullptr)
    tried = std::string(dlerror()) + "; set LF_CUDA_HOME to a CUDA toolkit or a folder with lib/" + soname;
  return opened;
}

Runtime::Runtime(const Environment& environment) {
  std::string tried;
  void* library = open_library(soname(), environment, tried);
  if (library == nullptr) throw sdk::Failure(LF_E_NO_DEVICE, "cuda: " + tried);
  std::string missing;
  const auto load = [&](const char* symbol, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
  load("cudaGetErrorString", get_error_string);
  load("cudaGetLastError", get_last_error);
  load("cudaDriverGetVersion", driver_get_version);
  load("cudaRuntimeGetVersion", runtime_get_version);
  load("cudaGetDeviceCount", get_device_count);
  load("cudaGetDevice", get_device);
  load("cudaSetDevice", set_device);
  load("cudaGetDeviceProperties", get_device_properties);
  load("cudaDeviceGetPCIBusId", device_get_pci_bus_id);
  load("cudaDeviceGetStreamPriorityRange", device_get_stream_priority_range);
  load("cudaDeviceCanAccessPeer", device_can_access_peer);
  load("cudaDeviceEnablePeerAccess", device_enable_peer_access);
  load("cudaDeviceSynchronize", device_synchronize);
  load("cudaMalloc", malloc);
  load("cudaFree", free);
  load("cudaMallocHost", malloc_host);
  load("cudaFreeHost", free_host);
  load("cudaMemGetInfo", mem_get_info);
  load("cudaMemcpyAsync", memcpy_async);
  load("cudaMemcpyPeerAsync", memcpy_peer_async);
  load("cudaMemsetAsync", memset_async);
  load("cudaStreamCreateWithPriority", stream_create_with_priority);
  load("cudaStreamDestroy", stream_destroy);
  load("cudaStreamSynchronize", stream_synchronize);
  load("cudaStreamWaitEvent", stream_wait_event);
  load("cudaEventCreateWithFlags", event_create_with_flags);
  load("cudaEventDestroy", event_destroy);
  load("cudaEventRecord", event_record);
  load("cudaEventQuery", event_query);
  load("cudaEventSynchronize", event_synchronize);
  load("cudaEventElapsedTime", event_elapsed_time);
  simulated = reinterpret_cast<decltype(simulated)>(dlsym(library, "lf_simulated_runtime"));
  Dl_info where{};
  if (get_error_string != nullptr && dladdr(reinterpret_cast<void*>(get_error_string), &where) != 0)
    path_ = where.dli_fname;
  if (!missing.empty())
    throw sdk::Failure(LF_E_NO_DEVICE, fmt::format("cuda: {} lacks {}; this plugin was built for CUDA {}.{}", path_,
                                                   missing, CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100));
}

void Runtime::check(cudaError_t error, const std::string& what) const {
  if (error == cudaSuccess) return;
  get_last_error();  // else the next unrelated call of anybody's would report it again
  throw CudaFailure(meaning_of(error), error, "cudart",
                    fmt::format("{}: {} ({}){}", what, get_error_string(error), static_cast<int>(error),
                                is_beyond_repair(error) ? "; start the process anew" : ""));
}

void Runtime::connect(int one, int other) const {
  const std::lock_guard lock(mutex_);
  if (!connected_.insert(std::minmax(one, other)).second) return;
  for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
    int can = 0;
    check(device_can_access_peer(&can, from, to), fmt::format("cudaDeviceCanAccessPeer({}, {})", from, to));
    if (can == 0) continue;
    const CurrentDevice current(*this, from);
    const cudaError_t error = device_enable_peer_access(to, 0);
    // Others (LibTorch) may have done it; and of the links that a GPU can have at a time, all may be taken: copies then
    // go by way of the host, as they did.
    if (error == cudaErrorPeerAccessAlreadyEnabled || error == cudaErrorTooManyPeers)
      get_last_error();
    else
      check(error, fmt::format("cudaDeviceEnablePeerAccess({}) on cuda:{}", to, from));
  }
}

CurrentDevice::CurrentDevice(const Runtime& runtime, int ordinal) : runtime_(runtime), ordinal_(ordinal) {
  runtime_.check(runtime_.get_device(&before_), "cudaGetDevice");
  if (before_ != ordinal_) runtime_.check(runtime_.set_device(ordinal_), fmt::format("cudaSetDevice({})", ordinal_));
}

CurrentDevice::~CurrentDevice() {
  if (before_ != ordinal_) runtime_.set_device(before_);
}

}  // namespace lf::cuda
