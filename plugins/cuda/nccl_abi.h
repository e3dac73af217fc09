// The part of NCCL's binary interface that this plugin uses, declared in our own words from its documentation (NVIDIA,
// "NCCL API", 2.14 to 2.28), so that building needs no NCCL: its wheel is 0.2 GB. tests/plugins/cuda/nccl_abi_test.cpp
// holds it to the vendor's header wherever that is installed.
#pragma once

#include <cstddef>

struct CUstream_st;

namespace lf::cuda {

extern "C" struct ncclComm;
using ncclComm_t = ncclComm*;

struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};

enum ncclRedOp_t : int { ncclSum = 0, ncclMax = 2, ncclMin = 3 };

enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};

// As of 2.14, its first: a library reads `size` bytes and takes its own defaults for members that came later.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};
constexpr int kOldestNccl = 21400;  // 2.14: the first with the non-blocking mode

// Types of functions, by the functions' names.
namespace nccl {
using Stream = CUstream_st*;
using GetVersion = ncclResult_t(int* version);
using GetErrorString = const char*(ncclResult_t);
using GetUniqueId = ncclResult_t(ncclUniqueId*);
using CommInitRankConfig = ncclResult_t(ncclComm_t*, int size, ncclUniqueId, int rank, ncclConfig_t*);
using CommDestroy = ncclResult_t(ncclComm_t);
using CommAbort = ncclResult_t(ncclComm_t);
using CommGetAsyncError = ncclResult_t(ncclComm_t, ncclResult_t*);
using GroupStart = ncclResult_t();
using GroupEnd = ncclResult_t();
using AllReduce = ncclResult_t(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, Stream);
using ReduceScatter = ncclResult_t(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, Stream);
using AllGather = ncclResult_t(const void*, void*, size_t, ncclDataType_t, ncclComm_t, Stream);
using Broadcast = ncclResult_t(const void*, void*, size_t, ncclDataType_t, int root, ncclComm_t, Stream);
using Send = ncclResult_t(const void*, size_t, ncclDataType_t, int peer, ncclComm_t, Stream);
using Recv = ncclResult_t(void*, size_t, ncclDataType_t, int peer, ncclComm_t, Stream);
}  // namespace nccl

}  // namespace lf::cuda
