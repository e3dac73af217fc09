// Collectives among ranks over LibTorch's Gloo, without any c10d type here.
//
// A group is used by one thread at a time, and all its ranks make the same calls in the same order. No call waits for
// ever: a peer that is gone, a cancelled rendezvous or the timeout ends it with lf::Error(kUnavailable), which names
// the group and what happened. Only for a rank that says so (Rendezvous::long_work) it waits as long as that takes.
// After an error the group is dead: destroy it before its buffers are touched again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/exchange.h"
#include "lf/plugin_api/parallel.h"

namespace lf {

// A collective under way. Its buffers stay untouched and alive until wait() returned or threw; a ticket that is dropped
// waits in its destructor. Must not outlive its group. Move only.
class Ticket {
 public:
  class Work {
   public:
    virtual ~Work() = default;
    virtual bool done() = 0;  // never blocks; true also after an error, which wait() throws
    virtual void wait() = 0;
  };

  Ticket() = default;  // done
  explicit Ticket(std::unique_ptr<Work> work) : work_(std::move(work)) {}
  bool done() const { return !work_ || work_->done(); }
  void wait() {
    if (auto work = std::move(work_)) work->wait();
  }

 private:
  std::unique_ptr<Work> work_;
};

class Group : public Exchange {
 public:
  virtual const std::string& name() const = 0;

  // In place, `count` elements of an LF_DTYPE_ (F32, F64, BF16, F16, I64, I32, U8) by an LF_REDUCE_. All ranks get the
  // same bits; which bits depends on the number of ranks.
  virtual Ticket all_reduce_async(void* data, int64_t count, int32_t dtype, int32_t reduction) = 0;

  // Bytes for each rank lie one after the other in `in` and in `out`; the counts are per rank, in bytes.
  virtual Ticket all_to_all_async(const void* in, std::span<const int64_t> send_bytes, void* out,
                                  std::span<const int64_t> receive_bytes) = 0;

  // `out`: size() pieces of `bytes` each, by rank.
  virtual Ticket all_gather_async(const void* in, void* out, int64_t bytes) = 0;

  virtual Ticket broadcast_async(void* data, int64_t bytes, int root) = 0;
  virtual void barrier() = 0;

  std::vector<std::string> all_gather(const std::string& mine) override;
  std::vector<std::string> all_to_all(const std::vector<std::string>& to) override;
  void all_reduce(std::span<float> values, int32_t reduction = LF_REDUCE_SUM);
  void all_reduce(std::span<double> values, int32_t reduction = LF_REDUCE_SUM);
};

// A group of one: nothing moves, nothing fails.
std::unique_ptr<Group> local_group(std::string name);

}  // namespace lf
