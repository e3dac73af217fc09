// NCCL as pointers. One copy serves this plugin and LibTorch: whichever the process has loaded first, so the LibTorch
// library is opened before it, and a copy from elsewhere is refused.
#pragma once

#include <string>

#include "nccl_abi.h"
#include "runtime.h"

namespace lf::cuda {

class Nccl {
 public:
  // `torch_site`: the folder that LibTorch's wheels were unpacked to, or empty before LibTorch was registered.
  // Throws LF_E_UNSUPPORTED when there is none, when it is older than 2.14, or from elsewhere.
  Nccl(const Environment& environment, const std::filesystem::path& torch_site);

  std::string path() const { return path_; }
  void check(ncclResult_t result, const std::string& what) const;  // throws CudaFailure

  nccl::GetVersion* get_version;
  nccl::GetErrorString* get_error_string;
  nccl::GetUniqueId* get_unique_id;
  nccl::CommInitRankConfig* comm_init_rank_config;
  nccl::CommDestroy* comm_destroy;
  nccl::CommAbort* comm_abort;
  nccl::CommGetAsyncError* comm_get_async_error;
  nccl::GroupStart* group_start;
  nccl::GroupEnd* group_end;
  nccl::AllReduce* all_reduce;
  nccl::ReduceScatter* reduce_scatter;
  nccl::AllGather* all_gather;
  nccl::Broadcast* broadcast;
  nccl::Send* send;
  nccl::Recv* recv;

 private:
  std::string path_;
};

int32_t meaning_of(ncclResult_t result) noexcept;

}  // namespace lf::cuda
