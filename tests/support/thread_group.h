// Groups whose ranks are threads of the test: collectives by plain copies, in rank order, and a check that all ranks
// make the same calls in the same order.
#pragma once

#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/group.h"

namespace lf::test {

// std::barrier spins, which on a busy machine costs a time slice at every meeting.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}
  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++here_ == size_) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return round_ != round; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  const int size_;
  int here_ = 0;
  int64_t round_ = 0;
};

class ThreadGroup final : public Group {
 public:
  struct Shared {
    explicit Shared(int size) : meeting(size), pointers(size), counts(size), calls(size) {}
    Meeting meeting;
    std::vector<const void*> pointers;
    std::vector<std::vector<int64_t>> counts;
    std::vector<std::string> calls;
    std::vector<char> scratch;
  };

  ThreadGroup(std::shared_ptr<Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_->pointers.size()); }
  const std::string& name() const override { return name_; }

  Ticket all_reduce_async(void* data, int64_t count, int32_t dtype, int32_t reduction) override {
    meet("all-reduce " + std::to_string(count) + " " + std::to_string(dtype) + " " + std::to_string(reduction), data,
         {});
    if (rank_ == 0) {
      if (dtype == LF_DTYPE_F32 && reduction == LF_REDUCE_SUM)
        reduce<float>(count, [](float a, float b) { return a + b; });
      else if (dtype == LF_DTYPE_U8 && reduction == LF_REDUCE_MAX)
        reduce<uint8_t>(count, [](uint8_t a, uint8_t b) { return std::max(a, b); });
      else
        throw std::logic_error("ThreadGroup: this reduction was not needed so far");
    }
    shared_->meeting.arrive_and_wait();
    const size_t bytes = static_cast<size_t>(count) * (dtype == LF_DTYPE_F32 ? 4 : 1);
    if (bytes > 0) std::memcpy(data, shared_->scratch.data(), bytes);
    shared_->meeting.arrive_and_wait();
    return Ticket();
  }

  Ticket all_to_all_async(const void* in, std::span<const int64_t> send, void* out,
                          std::span<const int64_t> receive) override {
    meet("all-to-all", in, {send.begin(), send.end()});
    char* to = static_cast<char*>(out);
    for (size_t peer = 0; peer < receive.size(); ++peer) {
      const auto& counts = shared_->counts[peer];
      if (counts[static_cast<size_t>(rank_)] != receive[peer])
        throw std::logic_error("counts of two ranks do not agree");
      const char* from = static_cast<const char*>(shared_->pointers[peer]);
      for (int r = 0; r < rank_; ++r) from += counts[static_cast<size_t>(r)];
      if (receive[peer] > 0) std::memcpy(to, from, static_cast<size_t>(receive[peer]));
      to += receive[peer];
    }
    shared_->meeting.arrive_and_wait();
    return Ticket();
  }

  Ticket all_gather_async(const void* in, void* out, int64_t bytes) override {
    meet("all-gather " + std::to_string(bytes), in, {});
    for (size_t peer = 0; peer < shared_->pointers.size(); ++peer) {
      std::memcpy(static_cast<char*>(out) + static_cast<size_t>(bytes) * peer, shared_->pointers[peer],
                  static_cast<size_t>(bytes));
    }
    shared_->meeting.arrive_and_wait();
    return Ticket();
  }

  Ticket broadcast_async(void* data, int64_t bytes, int root) override {
    meet("broadcast " + std::to_string(bytes), data, {});
    if (rank_ != root) std::memcpy(data, shared_->pointers[static_cast<size_t>(root)], static_cast<size_t>(bytes));
    shared_->meeting.arrive_and_wait();
    return Ticket();
  }

  void barrier() override { meet("barrier", nullptr, {}), shared_->meeting.arrive_and_wait(); }

 private:
  void meet(const std::string& call, const void* pointer, std::vector<int64_t> counts) {
    const auto me = static_cast<size_t>(rank_);
    shared_->calls[me] = call;
    shared_->pointers[me] = pointer;
    shared_->counts[me] = std::move(counts);
    shared_->meeting.arrive_and_wait();
    if (shared_->calls[me] != shared_->calls[0]) {
      throw std::logic_error("rank " + std::to_string(rank_) + " calls " + call + " while rank 0 calls " +
                             shared_->calls[0]);
    }
  }

  template <typename T, typename Add>
  void reduce(int64_t count, const Add& add) {
    shared_->scratch.resize(static_cast<size_t>(count) * sizeof(T));
    T* sum = reinterpret_cast<T*>(shared_->scratch.data());
    for (size_t peer = 0; peer < shared_->pointers.size(); ++peer) {
      const T* values = static_cast<const T*>(shared_->pointers[peer]);
      for (int64_t i = 0; i < count; ++i) sum[i] = peer == 0 ? values[i] : add(sum[i], values[i]);
    }
  }

  std::shared_ptr<Shared> shared_;
  int rank_;
  std::string name_ = "threads";
};

// Runs work(group) as `size` ranks at once. What a rank throws ends the test program: the others would wait for it.
inline void with_thread_ranks(int size, const std::function<void(Group&)>& work) {
  auto shared = std::make_shared<ThreadGroup::Shared>(size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadGroup group(shared, rank);
      work(group);
    });
  }
}

}  // namespace lf::test
