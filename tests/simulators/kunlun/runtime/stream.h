// Streams as worker threads with a queue, and events as numbers that such a queue passes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace lf::sim {

class Stream {
 public:
  explicit Stream(int device) : device_(device) {}
  ~Stream();  // finishes its queue
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int device() const { return device_; }
  // `work` returns 0 or a negative code, which is the stream's error until somebody waits.
  void enqueue(std::function<int()> work);
  int wait();  // until the queue is empty; the first error since the last wait

 private:
  void run();
  int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<int()>> queue_;
  bool busy_ = false, stopping_ = false;
  int error_ = 0;
  std::thread worker_;  // started by the first piece of work, so that idle streams cost nothing
};

// A copy shares the event's state: an event may be destroyed while a stream still waits for it.
class Event {
 public:
  void record(Stream& stream);
  std::function<int()> waiter() const;  // for another stream's queue: waits for the newest record as of now
  bool done() const;
  void wait() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0, passed = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace lf::sim
