#include "load/workers.h"

#include <utility>

namespace lf {

Workers::Workers(int count) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::add(bool urgent, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    (urgent ? urgent_ : waiting_).push_back(std::move(task));
  }
  changed_.notify_one();
}

void Workers::run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !urgent_.empty() || !waiting_.empty(); });
      if (stopping_) return;
      auto& queue = urgent_.empty() ? waiting_ : urgent_;
      task = std::move(queue.front());
      queue.pop_front();
    }
    task();
  }
}

}  // namespace lf
