// Calls into a vendor's code that may never return: a wait on a card that hangs keeps its thread for ever, and the
// peers of this rank wait with it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace lf {

struct CallWatchConfig {
  int rank = 0;                            // for the message
  std::string go_on = "the same command";  // likewise: what goes on with the run
  std::chrono::milliseconds limit{300'000};
  std::chrono::milliseconds with_peers{900'000};  // of calls that wait for other ranks too
  std::chrono::milliseconds grace{10'000};        // to come back in, once what waits for peers was ended
  // Last words for the peers, just before this process ends because a call has not come back. On the watch's thread.
  std::function<void(const std::string& what)> told = {};
};

// Watches the calls of all threads from one of its own. One that is overdue is logged with its name, its rank and its
// time; then what waits for peers is ended, which brings many a call back, and its caller throws kUnavailable. Where it
// does not come back, nothing can unwind its thread: the process ends by _Exit with that code. Time in which the whole
// process was stopped counts for no call.
class CallWatch {
 public:
  explicit CallWatch(CallWatchConfig config);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // One call, from here to its destruction. Of one thread; they may nest. `watch` null: nobody watches.
  class Call {
   public:
    Call(CallWatch* watch, std::string what, bool waits_for_peers = false);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    // After the call: throws kUnavailable where it had been given up, whatever it returned.
    void require_in_time() const;

   private:
    struct Entry;
    friend class CallWatch;
    CallWatch* const watch_;
    std::list<Entry>::iterator entry_;
  };

  // What ends the waiting for peers (a communicator's abort), while the handle lives. From any thread.
  class Ending {
   public:
    Ending(CallWatch* watch, std::function<void()> end);
    ~Ending();
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

   private:
    CallWatch* const watch_;
    std::list<std::function<void()>>::iterator at_;
  };

 private:
  void watch();
  void give_up(std::unique_lock<std::mutex>& lock, Call::Entry& overdue);
  std::string describe(const Call::Entry& overdue) const;

  const CallWatchConfig config_;
  mutable std::mutex mutex_;  // of what follows
  std::list<Call::Entry> calls_;
  std::string given_up_;  // the message, once there is one
  bool ending_ = false;
  std::condition_variable changed_;
  std::mutex endings_mutex_;
  std::list<std::function<void()>> endings_;
  std::thread ender_, thread_;
};

}  // namespace lf
