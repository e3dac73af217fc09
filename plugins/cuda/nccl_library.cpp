#include "nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "hardware/library.h"

namespace lf::cuda {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSoname = "libnccl.so.2";

std::string version_text(int code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

}  // namespace

int32_t meaning_of(ncclResult_t result) noexcept {
  switch (result) {
    case ncclSuccess:
      return LF_OK;
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return LF_E_INVALID;
    case ncclInProgress:
      return LF_E_NOT_READY;
    case ncclUnhandledCudaError:
      return LF_E_DEVICE_LOST;
    default:
      return LF_E_COMM;
  }
}

Nccl::Nccl(const Environment& environment, const fs::path& torch_site) {
  std::string tried;
  void* library = open_library(kSoname, environment, tried);
  if (library == nullptr) throw sdk::Failure(LF_E_UNSUPPORTED, "cuda collectives: " + tried);
  std::string missing;
  const auto load = [&](const char* symbol, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
  load("ncclGetVersion", get_version);
  load("ncclGetErrorString", get_error_string);
  load("ncclGetUniqueId", get_unique_id);
  load("ncclCommInitRankConfig", comm_init_rank_config);
  load("ncclCommDestroy", comm_destroy);
  load("ncclCommAbort", comm_abort);
  load("ncclCommGetAsyncError", comm_get_async_error);
  load("ncclGroupStart", group_start);
  load("ncclGroupEnd", group_end);
  load("ncclAllReduce", all_reduce);
  load("ncclReduceScatter", reduce_scatter);
  load("ncclAllGather", all_gather);
  load("ncclBroadcast", broadcast);
  load("ncclSend", send);
  load("ncclRecv", recv);
  Dl_info where{};
  if (get_version != nullptr && dladdr(reinterpret_cast<void*>(get_version), &where) != 0)
    path_ = fs::weakly_canonical(where.dli_fname);
  if (!missing.empty()) throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("{} lacks {}", path_, missing));
  int version = 0;
  check(get_version(&version), "ncclGetVersion");
  if (version < kOldestNccl || version / 10000 != kOldestNccl / 10000)
    throw sdk::Failure(LF_E_UNSUPPORTED, fmt::format("{} is NCCL {}; this plugin needs 2.14 or a later 2.x", path_,
                                                     version_text(version)));
  const fs::path shipped = torch_site / "nvidia";
  if (!torch_site.empty() && fs::exists(shipped / "nccl") && !hardware::lies_under(path_, fs::canonical(shipped)))
    throw sdk::Failure(LF_E_UNSUPPORTED,
                       fmt::format("the process has {}, LibTorch brings its own under {}; register the device before "
                                   "anything else loads NCCL",
                                   path_, shipped.string()));
}

void Nccl::check(ncclResult_t result, const std::string& what) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw CudaFailure(meaning_of(result), result, "nccl",
                    fmt::format("{}: {} ({})", what, get_error_string(result), static_cast<int>(result)));
}

}  // namespace lf::cuda
