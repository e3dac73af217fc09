// A call into a driver that may never come back, with a limit to how long anybody waits for it.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace lf::hardware {

// The result of `call`, made on a thread of its own; nothing when it took longer than `limit`. The thread is then left
// behind with whatever the call holds, so `call` must own all it uses. What it throws is thrown here.
template <typename Result>
std::optional<Result> call_within(std::chrono::milliseconds limit, std::function<Result()> call) {
  std::packaged_task<Result()> task(std::move(call));
  std::future<Result> result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace lf::hardware
