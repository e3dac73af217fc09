// One rank of a group of GPUs, over NCCL in its non-blocking mode: no call waits longer than the timeout.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "device.h"
#include "hardware/flights.h"
#include "lf/plugin_api/collective.h"
#include "nccl_library.h"

namespace lf::cuda {

std::string new_communicator_id(const Nccl& nccl);

class Communicator {
 public:
  // Blocks until all ranks are there, or config.timeout_ms. `nccl` and the device outlive it.
  Communicator(Device& device, const Nccl& nccl, const lf_communicator_config& config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Device& device() const { return device_; }

  void abort();  // from any thread; ends kernels that wait for peers
  // Throws what went wrong since: NCCL's asynchronous error, or a collective that outlasted the timeout.
  void require_sound();

  void group_begin();
  void group_end();
  void all_reduce(const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction, cudaStream_t stream);
  void reduce_scatter(const void* in, void* out, uint64_t n_out, int32_t dtype, int32_t reduction, cudaStream_t stream);
  void all_gather(const void* in, void* out, uint64_t n_in, int32_t dtype, cudaStream_t stream);
  void all_to_all(const void* in, const uint64_t* n_send, const uint64_t* send_at, void* out, const uint64_t* n_recv,
                  const uint64_t* recv_at, int32_t dtype, cudaStream_t stream);
  void broadcast(const void* in, void* out, uint64_t n, int32_t dtype, int root, cudaStream_t stream);
  void send(const void* in, uint64_t n, int32_t dtype, int peer, cudaStream_t stream);
  void receive(void* out, uint64_t n, int32_t dtype, int peer, cudaStream_t stream);

 private:
  using Clock = std::chrono::steady_clock;

  template <typename Call>
  void submit(const std::string& what, cudaStream_t stream, Call&& call);
  // NCCL's calls do not block in this mode, so one at a time costs nothing, and abort frees what they use.
  template <typename Call>
  ncclResult_t exclusively(Call&& call);
  void check(ncclResult_t result, const std::string& what);
  void finish(const std::string& what);  // until NCCL is no longer "in progress", or the timeout
  void track(const std::string& what, cudaStream_t stream);
  [[noreturn]] void fail(int32_t code, int native, const std::string& message);

  Device& device_;
  const Nccl& nccl_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;  // 0: none
  const std::string name_;
  ncclComm_t context_ = nullptr;
  std::atomic<bool> aborted_ = false;

  std::mutex nccl_mutex_;
  std::mutex mutex_;  // of what follows
  std::optional<CudaFailure> failure_;

  hardware::Flights<Event> flights_{timeout_};

  // Of the step thread alone.
  int group_depth_ = 0;
  std::set<cudaStream_t> group_streams_;
};

}  // namespace lf::cuda
