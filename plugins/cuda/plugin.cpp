// NVIDIA GPUs over the CUDA runtime and NCCL, both opened at run time.
#include "plugin.h"

#include <fmt/format.h>

#include "hardware/bounded.h"
#include "lf/plugin_sdk/plugin.hpp"
#include "torch_library.h"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"device","id":"cuda","version":"0.1.0","interfaces":["lf.device/1","lf.collective/1"],"torch":"none"})");

namespace lf::cuda {
namespace {

constexpr std::chrono::milliseconds kProbeLimit{30'000};  // a cold driver takes seconds

std::unique_ptr<Plugin>& instance() {
  static std::unique_ptr<Plugin> plugin;
  return plugin;
}

std::string no_gpus(const Runtime& runtime, cudaError_t error, const Environment& environment) {
  std::string reason = error == cudaSuccess ? "the driver reports no GPU" : runtime.get_error_string(error);
  runtime.get_last_error();
  int driver = 0;
  runtime.driver_get_version(&driver);
  reason += driver == 0
                ? "; there is no NVIDIA driver (libcuda.so.1)"
                : fmt::format("; the driver is for CUDA {}.{}, the runtime {} is {}.{}", driver / 1000,
                              driver / 10 % 100, runtime.path(), CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
  if (const auto mask = environment("CUDA_VISIBLE_DEVICES"))
    reason += fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\"", *mask);
  std::error_code ignored;
  if (!std::filesystem::exists("/dev/nvidia0", ignored)) reason += "; there is no /dev/nvidia0";
  return reason;
}

}  // namespace

Plugin& plugin() {
  if (!instance()) throw sdk::Failure(LF_E_INVALID, "cuda: the plugin was not started");
  return *instance();
}

std::shared_ptr<const Runtime> Plugin::runtime() {
  const std::lock_guard lock(mutex_);
  if (!runtime_) runtime_ = std::make_shared<const Runtime>(environment_);
  return runtime_;
}

uint32_t Plugin::probe(std::string& reason) {
  struct Answer {
    int count = 0;
    std::string reason;
  };
  const std::function<Answer()> ask = [this]() -> Answer {
    try {
      const auto opened = this->runtime();
      Answer answer;
      const cudaError_t error = opened->get_device_count(&answer.count);
      if (error != cudaSuccess || answer.count <= 0) answer = {0, no_gpus(*opened, error, environment_)};
      return answer;
    } catch (const std::exception& failure) {
      return {0, failure.what()};
    }
  };
  const auto answer = hardware::call_within<Answer>(kProbeLimit, ask);
  reason =
      answer ? answer->reason
             : fmt::format("the driver did not answer within {} ms; look at dmesg and nvidia-smi", kProbeLimit.count());
  return answer ? static_cast<uint32_t>(answer->count) : 0;
}

const Nccl& Plugin::nccl() {
  const std::lock_guard lock(mutex_);
  if (!nccl_) {
    nccl_.emplace(environment_, torch_site_);
    log(LF_LOG_INFO, "cuda: collectives of " + nccl_->path());
  }
  return *nccl_;
}

void Plugin::register_with_torch(const std::filesystem::path& library_dir, const std::string& build) {
  std::filesystem::path site = load_torch(library_dir, build);
  const std::lock_guard lock(mutex_);
  torch_site_ = std::move(site);
}

void Plugin::log(int32_t level, const std::string& text) const {
  if (LF_HAS(host_, log)) host_->log(host_, level, sdk::str(text));
}

namespace {

int32_t start(const lf_host* host, lf_err* err) {
  return entry(err, [&] { instance() = std::make_unique<Plugin>(host, hardware::from_process); });
}

int32_t stop(lf_err* err) {
  return entry(err, [&] {
    plugin();
    instance().reset();
  });
}

const sdk::Interface kInterfaces[] = {{LF_DEVICE_INTERFACE, &kDeviceTable},
                                      {LF_COLLECTIVE_INTERFACE, &kCollectiveTable}};
const lf_plugin kPlugin = sdk::make_plugin<kInterfaces>(LF_KIND_DEVICE, "cuda", "0.1.0", start, stop);

}  // namespace
}  // namespace lf::cuda

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &lf::cuda::kPlugin; }
