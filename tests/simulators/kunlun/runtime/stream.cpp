#include "stream.h"

#include <algorithm>
#include <utility>

namespace lf::sim {

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

void Stream::enqueue(std::function<int()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  if (!worker_.joinable()) worker_ = std::thread([this] { run(); });
  changed_.notify_all();
}

int Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  return std::exchange(error_, 0);
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return;
    const std::function<int()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    const int code = work();
    lock.lock();
    busy_ = false;
    if (error_ == 0) error_ = code;
    changed_.notify_all();
  }
}

void Event::record(Stream& stream) {
  uint64_t mine;
  {
    const std::lock_guard lock(state_->mutex);
    mine = ++state_->recorded;
  }
  stream.enqueue([state = state_, mine] {
    const std::lock_guard lock(state->mutex);
    state->passed = std::max(state->passed, mine);
    state->changed.notify_all();
    return 0;
  });
}

std::function<int()> Event::waiter() const {
  const std::lock_guard lock(state_->mutex);
  return [state = state_, wanted = state_->recorded] {
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->passed >= wanted; });
    return 0;
  };
}

bool Event::done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->passed >= state_->recorded;
}

void Event::wait() const { waiter()(); }

}  // namespace lf::sim
