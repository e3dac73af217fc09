// The functions of NCCL that plugins/cuda asks for, in its non-blocking mode, over the simulated ranks next door.
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include <cuda_runtime_api.h>

#include "calls.h"
#include "collectives.h"
#include "cuda/nccl_abi.h"
#include "rendezvous.h"
#include "xpu/runtime.h"

#define LF_SIM_NCCL extern "C" LF_SIM_EXPORT

namespace lf::cuda {
extern "C" struct ncclComm {
  std::shared_ptr<lf::sim::Communicator> ranks;  // null until all have met
  std::atomic<ncclResult_t> state = ncclInProgress;
  std::thread meeting;
};
}  // namespace lf::cuda

using namespace lf::cuda;

namespace {

using lf::sim::Element;
using lf::sim::Reduction;

bool to_element(ncclDataType_t type, Element& element) {
  switch (type) {
    case ncclUint8:
      return element = Element::kU8, true;
    case ncclInt32:
      return element = Element::kI32, true;
    case ncclInt64:
      return element = Element::kI64, true;
    case ncclFloat16:
      return element = Element::kF16, true;
    case ncclFloat32:
      return element = Element::kF32, true;
    case ncclFloat64:
      return element = Element::kF64, true;
    case ncclBfloat16:
      return element = Element::kBf16, true;
    default:
      return false;
  }
}

bool to_reduction(ncclRedOp_t op, Reduction& reduction) {
  switch (op) {
    case ncclSum:
      return reduction = Reduction::kAdd, true;
    case ncclMin:
      return reduction = Reduction::kMin, true;
    case ncclMax:
      return reduction = Reduction::kMax, true;
    default:
      return false;
  }
}

ncclResult_t usable(const char* function, ncclComm_t comm) {
  if (const int code = lf_sim_xpu_fault(function); code != 0) return static_cast<ncclResult_t>(code);
  if (comm == nullptr || !comm->ranks) return ncclInvalidArgument;
  return comm->ranks->broken() ? ncclRemoteError : ncclSuccess;
}

struct Buffers {
  const std::byte* in;
  std::byte* out;
};

// Null where either is no device memory of that many bytes. NCCL takes a null pointer for no elements.
bool find(const void* in, uint64_t in_bytes, void* out, uint64_t out_bytes, Buffers& buffers) {
  buffers.in = static_cast<std::byte*>(lf_sim_xpu_bytes(in, in_bytes));
  buffers.out = static_cast<std::byte*>(lf_sim_xpu_bytes(out, out_bytes));
  return (buffers.in != nullptr || in_bytes == 0) && (buffers.out != nullptr || out_bytes == 0);
}

ncclResult_t submit(lf::sim::Call call) {
  return lf::sim::submit(std::move(call)) ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace

LF_SIM_NCCL ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
LF_SIM_NCCL const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "simulated: a remote process has gone" : "simulated NCCL error";
}

LF_SIM_NCCL ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return lf::sim::open_rendezvous(id->internal), ncclSuccess;
}

LF_SIM_NCCL ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                                ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 0) return ncclInvalidArgument;  // this plugin never asks for it
  auto* made = new ncclComm;
  *comm = made;
  made->meeting = std::thread([=] {
    const int memory = lf::sim::join_rendezvous(id.internal, rank, size);
    if (memory >= 0) made->ranks = std::make_shared<lf::sim::Communicator>(memory, rank, size);
    made->state = memory >= 0 ? ncclSuccess : ncclRemoteError;
  });
  return ncclInProgress;
}

LF_SIM_NCCL ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->state;
  if (*state != ncclSuccess) return ncclSuccess;
  if (comm->ranks->broken()) *state = ncclRemoteError;
  if (const int code = lf_sim_xpu_fault("asynchronous"); code != 0) *state = static_cast<ncclResult_t>(code);
  return ncclSuccess;
}

LF_SIM_NCCL ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->meeting.joinable()) comm->meeting.join();
  delete comm;
  return ncclSuccess;
}

LF_SIM_NCCL ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm->state == ncclInProgress) {  // the meeting goes on without us; what it holds stays
    comm->meeting.detach();
    return ncclSuccess;
  }
  comm->meeting.join();
  if (comm->ranks) comm->ranks->abort();
  delete comm;
  return ncclSuccess;
}

LF_SIM_NCCL ncclResult_t ncclGroupStart() { return lf::sim::group_start(), ncclSuccess; }
LF_SIM_NCCL ncclResult_t ncclGroupEnd() { return lf::sim::group_end() ? ncclSuccess : ncclInvalidUsage; }

LF_SIM_NCCL ncclResult_t ncclAllReduce(const void* in, void* out, size_t n, ncclDataType_t type, ncclRedOp_t op,
                                       ncclComm_t comm, cudaStream_t stream) {
  if (const auto result = usable("ncclAllReduce", comm); result != ncclSuccess) return result;
  Element element;
  Reduction reduction;
  Buffers at;
  if (!to_element(type, element) || !to_reduction(op, reduction)) return ncclInvalidArgument;
  const uint64_t bytes = n * element_bytes(element);
  if (!find(in, bytes, out, bytes, at)) return ncclInvalidArgument;
  return submit({comm->ranks,
                 stream,
                 [=, ranks = comm->ranks] { return all_reduce(*ranks, at.in, at.out, n, element, reduction); },
                 {}});
}

LF_SIM_NCCL ncclResult_t ncclReduceScatter(const void* in, void* out, size_t n, ncclDataType_t type, ncclRedOp_t op,
                                           ncclComm_t comm, cudaStream_t stream) {
  if (const auto result = usable("ncclReduceScatter", comm); result != ncclSuccess) return result;
  Element element;
  Reduction reduction;
  Buffers at;
  if (!to_element(type, element) || !to_reduction(op, reduction)) return ncclInvalidArgument;
  const uint64_t bytes = n * element_bytes(element);
  if (!find(in, bytes * comm->ranks->size(), out, bytes, at)) return ncclInvalidArgument;
  return submit({comm->ranks,
                 stream,
                 [=, ranks = comm->ranks] { return reduce_scatter(*ranks, at.in, at.out, n, element, reduction); },
                 {}});
}

LF_SIM_NCCL ncclResult_t ncclAllGather(const void* in, void* out, size_t n, ncclDataType_t type, ncclComm_t comm,
                                       cudaStream_t stream) {
  if (const auto result = usable("ncclAllGather", comm); result != ncclSuccess) return result;
  Element element;
  Buffers at;
  if (!to_element(type, element)) return ncclInvalidArgument;
  const uint64_t bytes = n * element_bytes(element);
  if (!find(in, bytes, out, bytes * comm->ranks->size(), at)) return ncclInvalidArgument;
  return submit(
      {comm->ranks, stream, [=, ranks = comm->ranks] { return all_gather(*ranks, at.in, at.out, bytes); }, {}});
}

LF_SIM_NCCL ncclResult_t ncclBroadcast(const void* in, void* out, size_t n, ncclDataType_t type, int root,
                                       ncclComm_t comm, cudaStream_t stream) {
  if (const auto result = usable("ncclBroadcast", comm); result != ncclSuccess) return result;
  Element element;
  Buffers at;
  if (!to_element(type, element) || root < 0 || root >= comm->ranks->size()) return ncclInvalidArgument;
  const uint64_t bytes = n * element_bytes(element);
  if (!find(in, bytes, out, bytes, at)) return ncclInvalidArgument;
  return submit(
      {comm->ranks, stream, [=, ranks = comm->ranks] { return broadcast(*ranks, at.in, at.out, bytes, root); }, {}});
}

LF_SIM_NCCL ncclResult_t ncclSend(const void* in, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                                  cudaStream_t stream) {
  if (const auto result = usable("ncclSend", comm); result != ncclSuccess) return result;
  Element element;
  Buffers at;
  if (!to_element(type, element) || peer < 0 || peer >= comm->ranks->size()) return ncclInvalidArgument;
  const uint64_t bytes = n * element_bytes(element);
  if (!find(in, bytes, nullptr, 0, at)) return ncclInvalidArgument;
  return submit({comm->ranks, stream, {}, {{peer, true, const_cast<std::byte*>(at.in), bytes}}});
}

LF_SIM_NCCL ncclResult_t ncclRecv(void* out, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                                  cudaStream_t stream) {
  if (const auto result = usable("ncclRecv", comm); result != ncclSuccess) return result;
  Element element;
  Buffers at;
  if (!to_element(type, element) || peer < 0 || peer >= comm->ranks->size()) return ncclInvalidArgument;
  const uint64_t bytes = n * element_bytes(element);
  if (!find(nullptr, 0, out, bytes, at)) return ncclInvalidArgument;
  return submit({comm->ranks, stream, {}, {{peer, false, at.out, bytes}}});
}
