// Collectives under way: vendors have no query for one that is stuck, so each is followed by an event with a deadline.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lf::hardware {

// Event has record(stream) and done(). From any thread.
template <typename Event>
class Flights {
 public:
  // 0: nothing is ever overdue, and no event is made.
  explicit Flights(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  template <typename MakeEvent, typename Stream>
  void track(const std::string& what, Stream stream, const MakeEvent& make_event) {
    if (timeout_.count() == 0) return;
    std::unique_ptr<Event> event = take_spare();
    if (!event) event = make_event();
    event->record(stream);
    const std::lock_guard lock(mutex_);
    flights_.push_back({std::move(event), Clock::now() + timeout_, what});
  }

  // The first that has outlasted the timeout; empty: none has.
  std::string overdue() {
    const std::lock_guard lock(mutex_);
    reap();
    const bool late = !flights_.empty() && Clock::now() > flights_.front().deadline;
    return late ? flights_.front().what : std::string();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight {
    std::unique_ptr<Event> passed;
    Clock::time_point deadline;
    std::string what;
  };

  std::unique_ptr<Event> take_spare() {
    const std::lock_guard lock(mutex_);
    reap();
    if (spare_.empty()) return nullptr;
    std::unique_ptr<Event> event = std::move(spare_.back());
    spare_.pop_back();
    return event;
  }

  void reap() {
    while (!flights_.empty() && flights_.front().passed->done()) {
      spare_.push_back(std::move(flights_.front().passed));
      flights_.pop_front();
    }
  }

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::deque<Flight> flights_;
  std::vector<std::unique_ptr<Event>> spare_;
};

}  // namespace lf::hardware
