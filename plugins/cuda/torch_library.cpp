#include "torch_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "hardware/library.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::cuda {
namespace fs = std::filesystem;

fs::path load_torch(const fs::path& given, const std::string& build) {
  const fs::path directory = given.empty() ? hardware::folder_of_loaded("libtorch_cpu.so") : given;
  const fs::path library = directory / "libtorch_cuda.so";
  if (!fs::exists(library))
    throw sdk::Failure(LF_E_UNSUPPORTED,
                       fmt::format("cuda: LibTorch {} in {} has no libtorch_cuda.so; run tools/hardware/cuda_setup.sh, "
                                   "which unpacks the wheels' GPU libraries",
                                   build, directory.string()));
  if (build.find("+cu") == build.npos)
    throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("cuda: the core runs LibTorch {}, which is no CUDA build", build));
  // By its path, so that its own search path decides on the NCCL and CUDA libraries for all that come later.
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr)
    throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("cuda: {}", dlerror()));
  const fs::path site = fs::weakly_canonical(directory / ".." / "..");
  const auto foreign = hardware::foreign_copies({"libtorch_cuda.so", "libc10_cuda.so"}, site);
  if (!foreign.empty())
    throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("cuda: this process has {} beside {}; one LibTorch only",
                                                     foreign.front().string(), library.string()));
  return site;
}

}  // namespace lf::cuda
