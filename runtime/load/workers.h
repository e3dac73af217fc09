// The loader's threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace lf {

class Workers {
 public:
  explicit Workers(int count);
  // Tasks under way are finished, waiting ones dropped: their futures throw std::future_error.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Urgent tasks go before all others: the next plan needs them, while the others fill steps ahead.
  template <typename Body>
  auto submit(bool urgent, Body body) -> std::future<std::invoke_result_t<Body>> {
    // Shared, since std::function wants what can be copied.
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Body>()>>(std::move(body));
    auto future = task->get_future();
    add(urgent, [task] { (*task)(); });
    return future;
  }

 private:
  void add(bool urgent, std::function<void()> task);
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> urgent_, waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lf
