// Ranks as threads of one process.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/exchange.h"
#include "load/wire.h"

namespace lf {

// What the ranks' exchanges share. A rank that aborts is gone: whoever waits for it, then or later, gets an error.
class Meeting {
 public:
  explicit Meeting(int size) : messages_(size) {}

  std::vector<std::string> gather(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    const auto wait_for = [&](auto&& condition) {
      changed_.wait(lock, [&] { return gone_ || condition(); });
      if (!condition()) throw Error(Exit::kUnavailable, "exchange: a rank is gone");
    };
    wait_for([&] { return !complete_; });  // the round before has been left by all
    messages_[rank] = mine;
    if (++arrived_ == messages_.size()) complete_ = true;
    changed_.notify_all();
    wait_for([&] { return complete_; });
    std::vector<std::string> all = messages_;
    if (--arrived_ == 0) complete_ = false;
    changed_.notify_all();
    return all;
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    changed_.notify_all();
  }

  size_t size() const { return messages_.size(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> messages_;
  size_t arrived_ = 0;
  bool complete_ = false, gone_ = false;
};

class ThreadExchange final : public Exchange {
 public:
  ThreadExchange(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_->size()); }
  std::vector<std::string> all_gather(const std::string& mine) override { return meeting_->gather(rank_, mine); }
  std::vector<std::string> all_to_all(const std::vector<std::string>& to) override {
    WireWriter mine;
    for (const std::string& message : to) mine.put(std::string_view(message));
    std::vector<std::string> from;
    for (const std::string& of_rank : meeting_->gather(rank_, mine.take())) {
      WireReader in(of_rank);
      for (int to_rank = 0; to_rank < rank_; ++to_rank) in.text();
      from.push_back(in.text());
    }
    return from;
  }
  void abort() noexcept override { meeting_->leave(); }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace lf
