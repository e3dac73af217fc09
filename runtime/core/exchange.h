// What the modules below the control plane see of it: bytes gathered from, or sent to, all ranks. The one over c10d
// is comm/group.h; tests use in-process ones.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lf {

// Who is missing, asked once when a collective takes too long: ranks that wait in it too say so, and who is silent is
// the one that is waited for. A rank that was stopped by a signal keeps its connections, and nothing else tells.
class RollCall {
 public:
  // Waits that long, or less where the answer does not matter any more: true.
  using Pause = std::function<bool(std::chrono::milliseconds)>;

  virtual ~RollCall() = default;
  // "This rank waits, and is well", where the roll is called. By whoever waits for peers, every second or so.
  virtual void answer() noexcept = 0;
  // What a rank is at that peers go on waiting for (Rendezvous::long_work): "rank 0 is writing a checkpoint (45 s)".
  // Empty: none of them is known to be at such work and alive. Takes up to three seconds.
  virtual std::string long_work(const Pause& pause) = 0;
  // Calls it, and gives the others three seconds. Ranks that did not answer; none where all wait for one another.
  virtual std::vector<int> silent_ranks(const Pause& pause) = 0;
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Everyone's bytes, by rank. Every rank calls it, in the same order; sizes may differ. Throws lf::Error(kUnavailable)
  // naming the group when a peer is gone. One thread at a time.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;
  // One message to each rank, by rank, also to itself; what each sent to this one, by rank. Otherwise as all_gather.
  virtual std::vector<std::string> all_to_all(const std::vector<std::string>& to) = 0;
  // Makes the call under way, and every later one, throw soon; from any thread. A group that can wait for a peer
  // overrides it: a destructor elsewhere joins the thread that waits.
  virtual void abort() noexcept {}
  // Of other collectives among the same ranks, by their name; null where ranks cannot be stopped one by one.
  virtual std::unique_ptr<RollCall> roll_call(const std::string&) { return nullptr; }
};

// A group of one.
class LocalExchange final : public Exchange {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override { return {mine}; }
  std::vector<std::string> all_to_all(const std::vector<std::string>& to) override { return to; }
};

}  // namespace lf
