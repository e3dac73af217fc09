// What the modules below the control plane see of it: bytes gathered from, or sent to, all ranks. The one over c10d
// is comm/group.h; tests use in-process ones.
#pragma once

#include <string>
#include <vector>

namespace lf {

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
