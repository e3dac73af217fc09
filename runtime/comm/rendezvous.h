// Where the ranks of a job find each other and form groups.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/group.h"
#include "comm/key_value_store.h"

namespace lf {

struct RendezvousConfig {
  int rank = 0, size = 1;
  std::string generation = "g0";      // prefix of every key: groups of one membership never meet those of another
  std::string address = "127.0.0.1";  // numeric, of this host: Gloo listens there and nowhere else
  std::chrono::milliseconds form_timeout{60'000};  // until all ranks have come to a group
  std::chrono::milliseconds timeout{600'000};      // of one collective: the longest a rank may be late
  StopRequested stop_requested = {};               // while groups form; later the run itself asks
};

// Work of one rank that its peers wait for in a collective however long it takes, while it lives.
class LongWork {
 public:
  virtual ~LongWork() = default;  // it is done
};

// One per process and generation. Groups may be made on one thread at a time and must be destroyed before it.
class Rendezvous {
 public:
  // Refuses GLOO_DEVICE_TRANSPORT=TCP_TLS, which encrypts nothing. Throws lf::Error(kUnavailable, kConfig).
  Rendezvous(RendezvousConfig config, std::shared_ptr<KeyValueStore> store);
  ~Rendezvous();

  // Forms the group `name` of all ranks; every rank calls it, for the same names in the same order. The group's own
  // name in messages is "<generation>/<name>". Throws lf::Error(kUnavailable) when not all came, or one died meanwhile;
  // kSavedRunAgain when asked to stop.
  std::unique_ptr<Group> group(const std::string& name);

  // Says to the peers that this rank is at `what` ("writing a checkpoint") until the returned goes: a collective that
  // they wait in is then not overdue, and they log what they wait for once every `timeout`. A thread of its own renews
  // the word each second, so a rank that was stopped or died is still found out. One at a time. Of any thread.
  std::unique_ptr<LongWork> long_work(const std::string& what);

  // Ends every pending and later call of all groups with this reason. From any thread; never blocks; the first reason
  // stays. For whoever watches membership.
  void cancel(const std::string& reason);

  // Leaves word, before this rank goes down, of what went wrong here: peers then report it in place of a closed
  // connection. The first word of the generation stays. Never throws.
  void announce_failure(const std::string& what) noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lf
