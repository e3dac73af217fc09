// Sums over the cards of a group of ranks, by the device plugin's own collectives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/error.h"
#include "core/exchange.h"
#include "lf/plugin_api/collective.h"
#include "model/device.h"

namespace lf {

struct CommunicatorConfig {
  std::string name;                            // in messages: "gradients"
  std::chrono::milliseconds timeout{600'000};  // until all ranks have come; of one collective
};

// Calls of the plugin are watched as the device's are. All ranks make the same calls in the same order. Nothing here
// waits for a peer: a sum is enqueued, and a thread of the communicator watches it. Where something went wrong, be it
// an error of the vendor's, a collective that is overdue, or a peer that is gone, that thread ends what waits on this
// rank's streams, and require_sound throws the first cause. Where a collective is overdue, it also asks which ranks are
// silent, if `meeting` has a roll call.
class Communicator {
 public:
  // Every rank calls it; `meeting` carries the id. Blocks until all have, or the timeout. Throws kUnavailable on every
  // rank where any of them cannot, with that rank's reason. `device` and `api` outlive it.
  Communicator(const Device& device, const lf_collective_api* api, Exchange& meeting, const CommunicatorConfig& config);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // In place on device memory, behind what the stream holds already; the same bits on every rank. [step]
  void all_reduce_f32(std::byte* data, uint64_t count, lf_stream stream);

  // From any thread. Throws lf::Error: kUnavailable, or kBug where the plugin blames the call.
  void require_sound() const;
  // Ends what waits for peers on this rank's streams; buffers under way hold anything. From any thread.
  void abort() noexcept;

 private:
  void watch();
  bool pause(std::chrono::milliseconds time);  // true: it ends
  bool a_peer_is_at_long_work();
  std::string with_silent_ranks(std::string overdue);
  void keep(const Error& cause);

  const Device& device_;
  const lf_collective_api* api_;
  const std::string what_;  // "device kunlun, gradients"
  const std::unique_ptr<RollCall> roll_;
  lf_communicator handle_ = nullptr;

  mutable std::mutex mutex_;  // of what follows
  std::optional<Error> cause_;
  bool aborted_ = false, ending_ = false;
  std::condition_variable end_;
  std::thread watcher_;
  std::optional<CallWatch::Ending> ending_by_watch_;  // a call of this rank that hangs may wait for peers
};

}  // namespace lf
