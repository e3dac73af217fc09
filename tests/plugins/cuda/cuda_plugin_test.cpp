// The cuda plugin on a machine without a GPU: it loads, and says why there is nothing.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include "lf/plugin_api/collective.h"
#include "lf/plugin_api/entry.h"
#include "lf/plugin_sdk/guard.hpp"
#include "nccl_library.h"
#include "runtime.h"
#include "torch_library.h"

namespace lf::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const lf_plugin& plugin() {
  void* handle = dlopen(LF_BUILD_DIR "/plugins/cuda.lfplugin.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) std::abort();
  return *reinterpret_cast<decltype(&lf_plugin_entry)>(dlsym(handle, LF_PLUGIN_ENTRY_NAME))(LF_ABI_MAJOR, LF_ABI_MINOR);
}

std::vector<std::string> loaded(std::initializer_list<const char*> prefixes) {
  std::vector<std::string> found;
  for (std::ifstream maps("/proc/self/maps"); maps;) {
    std::string line;
    std::getline(maps, line);
    const std::string file = fs::path(line.substr(std::min(line.find('/'), line.size()))).filename();
    for (const char* prefix : prefixes)
      if (file.starts_with(prefix)) found.push_back(file);
  }
  return found;
}

class Started {
 public:
  Started() : plugin_(plugin()), host_(sdk::with_header<lf_host>()) {
    EXPECT_EQ(plugin_.start(&host_, &err), LF_OK) << err.message;
    device = static_cast<const lf_device_api*>(plugin_.get_interface(sdk::str(LF_DEVICE_INTERFACE)));
    collective = static_cast<const lf_collective_api*>(plugin_.get_interface(sdk::str(LF_COLLECTIVE_INTERFACE)));
  }
  ~Started() { EXPECT_EQ(plugin_.stop(&err), LF_OK) << err.message; }
  uint32_t probe(std::string& reason) {
    uint32_t count = 0;
    EXPECT_EQ(device->probe(&count, sdk::string_sink(reason), &err), LF_OK) << err.message;
    return count;
  }
  const lf_device_api* device;
  const lf_collective_api* collective;
  lf_err err = sdk::make_err();

 private:
  const lf_plugin& plugin_;
  lf_host host_;
};

// In a process of its own: what one case loads of NVIDIA's would be there in every later one. `body` may use EXPECT_.
void expect_in_a_new_process(const std::function<void()>& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // runs this program again, for this case alone
  EXPECT_EXIT(
      {
        body();
        std::fflush(stdout);
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(CudaPlugin, loading_it_loads_nothing_of_nvidias) {
  plugin();
  EXPECT_THAT(loaded({"libcuda", "libcudart", "libnccl", "libtorch"}), IsEmpty());
}

TEST(CudaPlugin, a_machine_without_a_gpu_has_none_and_the_drivers_reason_is_told) {
  if (fs::exists("/dev/nvidia0")) GTEST_SKIP() << "there is a GPU here";
  expect_in_a_new_process([] {
    unsetenv("LF_CUDA_HOME");
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    Started cuda;
    std::string reason;
    EXPECT_EQ(cuda.probe(reason), 0U);
    // Without even the runtime library the loader's words are the reason.
    EXPECT_THAT(reason,
                AnyOf(AllOf(HasSubstr("/dev/nvidia0"), HasSubstr("driver"), HasSubstr("CUDA_VISIBLE_DEVICES is \"7\"")),
                      AllOf(HasSubstr("libcudart.so"), HasSubstr("LF_CUDA_HOME"))));
    lf_device device = nullptr;
    EXPECT_EQ(cuda.device->open(0, &device, &cuda.err), LF_E_NO_DEVICE);
  });
}

TEST(CudaPlugin, a_home_without_the_runtime_is_named_and_no_other_is_used) {
  expect_in_a_new_process([] {
    setenv("LF_CUDA_HOME", "/nowhere/cuda", 1);
    Started cuda;
    std::string reason;
    EXPECT_EQ(cuda.probe(reason), 0U);
    EXPECT_THAT(reason, HasSubstr("/nowhere/cuda/lib64/libcudart.so"));
    std::string id;
    EXPECT_EQ(cuda.collective->new_id(sdk::string_sink(id), &cuda.err), LF_E_UNSUPPORTED);
    EXPECT_THAT(cuda.err.message, HasSubstr("libnccl.so.2"));
  });
}

TEST(CudaPlugin, calls_before_start_are_refused) {
  uint32_t count = 0;
  std::string reason;
  lf_err err = sdk::make_err();
  const auto* device = static_cast<const lf_device_api*>(plugin().get_interface(sdk::str(LF_DEVICE_INTERFACE)));
  EXPECT_EQ(device->probe(&count, sdk::string_sink(reason), &err), LF_E_INVALID);
  EXPECT_THAT(err.message, HasSubstr("not started"));
}

TEST(CudaCodes, tell_what_the_caller_can_do) {
  EXPECT_EQ(meaning_of(cudaErrorMemoryAllocation), LF_E_NOMEM_DEVICE);
  EXPECT_EQ(meaning_of(cudaErrorIllegalAddress), LF_E_DEVICE_LOST);
  for (const cudaError_t lost : {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorMpsClientTerminated,
                                 cudaErrorExternalDevice, cudaErrorContained, cudaErrorTensorMemoryLeak})
    EXPECT_EQ(meaning_of(lost), LF_E_DEVICE_LOST) << lost;
  EXPECT_EQ(meaning_of(cudaErrorInvalidValue), LF_E_INVALID);
  EXPECT_EQ(meaning_of(cudaErrorInsufficientDriver), LF_E_NO_DEVICE);
  EXPECT_EQ(meaning_of(ncclRemoteError), LF_E_COMM);
  EXPECT_EQ(meaning_of(ncclInvalidUsage), LF_E_INVALID);
}

TEST(CudaTorch, a_libtorch_without_its_cuda_half_is_refused_and_the_way_to_it_is_named) {
  const fs::path empty = fs::temp_directory_path() / ("lf_torch_" + std::to_string(getpid()));
  fs::create_directory(empty);
  try {
    load_torch(empty, "2.11.0+cu130");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_UNSUPPORTED);
    EXPECT_THAT(failure.what(),
                AllOf(HasSubstr(empty.string()), HasSubstr("libtorch_cuda.so"), HasSubstr("cuda_setup.sh")));
  }
  fs::remove(empty);
}

TEST(CudaTorch, a_cpu_build_is_refused_by_its_name) {
  const fs::path folder = fs::temp_directory_path() / ("lf_torch_cpu_" + std::to_string(getpid()));
  fs::create_directory(folder);
  std::ofstream(folder / "libtorch_cuda.so") << "not opened";
  EXPECT_THROW(load_torch(folder, "2.11.0+cpu"), sdk::Failure);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lf::cuda
