// One rank of a group of cards, over the vendor's collectives.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hardware/flights.h"
#include "lf/plugin_api/collective.h"
#include "stream.h"
#include "vendor/bkcl.h"

namespace lf::kunlun {

// Bytes that rank 0 makes and every rank creates its communicator from.
std::string new_communicator_id(const Bkcl& bkcl);

class Communicator {
 public:
  // Blocks until all ranks are there, or config.timeout_ms. `bkcl`, `runtime` and the device outlive it.
  Communicator(std::shared_ptr<const Runtime> runtime, Device& device, const Bkcl& bkcl,
               const lf_communicator_config& config);
  ~Communicator();  // waits for what is under way, unless the group is broken
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Device& device() const { return device_; }

  void abort();  // from any thread; frees streams that wait for peers
  // Throws what went wrong since: an error of the vendor's, or a collective that outlasted the timeout (the vendor has
  // no query for either, so each collective is followed by an event; runtimes without event queries only show errors).
  void require_sound();

  void group_begin();
  void group_end();
  void all_reduce(const void* in, void* out, uint64_t n, int32_t dtype, int32_t reduction, XpuStream stream);
  void reduce_scatter(const void* in, void* out, uint64_t n_out, int32_t dtype, int32_t reduction, XpuStream stream);
  void all_gather(const void* in, void* out, uint64_t n_in, int32_t dtype, XpuStream stream);
  void all_to_all(const void* in, const uint64_t* n_send, const uint64_t* send_at, void* out, const uint64_t* n_recv,
                  const uint64_t* recv_at, int32_t dtype, XpuStream stream);
  void broadcast(const void* in, void* out, uint64_t n, int32_t dtype, int root, XpuStream stream);
  void send(const void* in, uint64_t n, int32_t dtype, int peer, XpuStream stream);
  void receive(void* out, uint64_t n, int32_t dtype, int peer, XpuStream stream);

 private:
  struct Arrays {  // counts and offsets of an all-to-all: the vendor reads them from device memory
    void *host, *device;
    std::unique_ptr<Event> passed;  // the device no longer reads them
  };

  template <typename Call>
  void submit(const std::string& what, XpuStream stream, Call&& call);
  void check(int32_t result, const std::string& what);
  void track(const std::string& what, XpuStream stream);
  void find_overdue();
  [[noreturn]] void fail(int32_t code, const std::string& message);
  Arrays take_arrays();
  int32_t reduced_type(int32_t dtype) const;
  int32_t reduction_code(int32_t reduction) const;
  // A type of the same width for collectives that only move, and how many of it make one element.
  std::pair<int32_t, uint64_t> moved_type(int32_t dtype) const;

  std::shared_ptr<const Runtime> runtime_;
  Device& device_;
  const Bkcl& bkcl_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;  // 0: none
  const std::string name_;
  void* context_ = nullptr;
  std::atomic<bool> aborted_ = false;

  std::mutex mutex_;  // of what follows; never held in a call of the vendor's that may block
  std::optional<sdk::Failure> failure_;
  std::deque<Arrays> arrays_;

  hardware::Flights<Event> flights_;

  // Of the step thread alone.
  int group_depth_ = 0;
  std::set<XpuStream> group_streams_;
  std::vector<std::pair<Arrays, XpuStream>> group_arrays_;
};

}  // namespace lf::kunlun
