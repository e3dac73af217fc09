#include "model/call_watch.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace lf {
namespace {

using WatchClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kAfterwards{10'000};  // of any call, once one was given up and the rank unwinds
constexpr std::chrono::milliseconds kMostBetweenLooks{500};

}  // namespace

struct CallWatch::Call::Entry {
  std::string what;
  std::thread::id thread;
  WatchClock::time_point begun;
  std::chrono::milliseconds limit;
  WatchClock::duration waited{};  // as the watch saw it: no time in which this process was stopped
  bool given_up = false;
};

CallWatch::CallWatch(CallWatchConfig config) : config_(std::move(config)), thread_([this] { watch(); }) {}

CallWatch::~CallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (ender_.joinable()) ender_.join();
}

CallWatch::Call::Call(CallWatch* watch, std::string what, bool waits_for_peers) : watch_(watch) {
  if (watch_ == nullptr) return;
  const CallWatchConfig& config = watch_->config_;
  const std::lock_guard lock(watch_->mutex_);
  entry_ =
      watch_->calls_.insert(watch_->calls_.end(), Entry{.what = std::move(what),
                                                        .thread = std::this_thread::get_id(),
                                                        .begun = WatchClock::now(),
                                                        .limit = waits_for_peers ? config.with_peers : config.limit});
}

CallWatch::Call::~Call() {
  if (watch_ == nullptr) return;
  {
    const std::lock_guard lock(watch_->mutex_);
    const bool awaited = entry_->given_up;
    watch_->calls_.erase(entry_);
    if (!awaited) return;
  }
  watch_->changed_.notify_all();
}

void CallWatch::Call::require_in_time() const {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->mutex_);
  if (entry_->given_up) fail(Exit::kUnavailable, "{}", watch_->given_up_);
}

CallWatch::Ending::Ending(CallWatch* watch, std::function<void()> end) : watch_(watch) {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->endings_mutex_);
  at_ = watch_->endings_.insert(watch_->endings_.end(), std::move(end));
}

CallWatch::Ending::~Ending() {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->endings_mutex_);
  watch_->endings_.erase(at_);
}

void CallWatch::watch() {
  const auto between = std::clamp(config_.limit / 8, std::chrono::milliseconds(1), kMostBetweenLooks);
  std::unique_lock lock(mutex_);
  auto last = WatchClock::now();
  while (!changed_.wait_for(lock, between, [this] { return ending_; })) {
    const auto now = WatchClock::now();
    for (Call::Entry& entry : calls_)
      entry.waited += std::min<WatchClock::duration>(now - std::max(last, entry.begun), kMostBetweenLooks * 4);
    last = now;
    const auto overdue = std::find_if(calls_.begin(), calls_.end(), [&](const Call::Entry& entry) {
      return entry.waited > (given_up_.empty() ? entry.limit : std::min(entry.limit, kAfterwards));
    });
    if (overdue != calls_.end()) give_up(lock, *overdue);
  }
}

// The innermost call of its thread is the one that hangs.
std::string CallWatch::describe(const Call::Entry& overdue) const {
  const Call::Entry* inner = &overdue;
  for (const Call::Entry& entry : calls_)
    if (entry.thread == overdue.thread) inner = &entry;
  const auto seconds = std::chrono::duration<double>(overdue.waited).count();
  return fmt::format(
      "{}{} has not returned for {:.1f} s, more than the {:g} s that it may take (device.call_timeout_seconds, and "
      "reduction.timeout_seconds where it waits for peers): the driver, the card or a link hangs; look at them, then "
      "run {} again",
      overdue.what, inner == &overdue ? "" : ", in " + inner->what, seconds,
      std::chrono::duration<double>(overdue.limit).count(), config_.go_on);
}

void CallWatch::give_up(std::unique_lock<std::mutex>& lock, Call::Entry& overdue) {
  const std::string text = describe(overdue);
  if (given_up_.empty()) given_up_ = text;
  for (Call::Entry& entry : calls_)
    if (entry.thread == overdue.thread) entry.given_up = true;
  const auto still_there = [this] {
    return std::any_of(calls_.begin(), calls_.end(), [](const Call::Entry& entry) { return entry.given_up; });
  };
  lock.unlock();
  log::error("rank {}: {}", config_.rank, text);
  // On a thread of its own: a communicator of a driver that hangs may hang itself.
  if (!ender_.joinable())
    ender_ = std::thread([this] {
      const std::lock_guard endings_lock(endings_mutex_);
      for (const auto& end : endings_) {
        const Call call(this, "ending what waits for peers");
        end();
      }
    });
  lock.lock();
  if (changed_.wait_for(lock, config_.grace, [&] { return !still_there(); })) return;
  lock.unlock();
  log::error("rank {}: it did not come back either when what waits for peers was ended; this process ends here",
             config_.rank);
  log::flush();
  if (config_.told) config_.told(text);
  std::_Exit(static_cast<int>(Exit::kUnavailable));
}

}  // namespace lf
