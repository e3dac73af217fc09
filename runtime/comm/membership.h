// What the groups of one rendezvous know about their ranks: whether it was cancelled, what went wrong first, who left
// in good order. Internal to comm.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "comm/rendezvous.h"

namespace lf {

// Safe from any thread. Nothing here throws but the constructor: it is used while things already go wrong.
class Membership {
 public:
  Membership(RendezvousConfig config, std::shared_ptr<KeyValueStore> store);

  const RendezvousConfig& config() const { return config_; }
  KeyValueStore& store() { return *store_; }
  std::string key(const std::string& rest) const { return config_.generation + "/" + rest; }

  void cancel(const std::string& reason);
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  std::string cancel_reason() const;

  // The first word of the generation stays, whoever says it.
  void announce(const std::string& word) noexcept;
  std::optional<std::string> first_word() noexcept;

  // A rank that drops a group in good order says so, and its closed connections are then no failure.
  void say_goodbye(const std::string& group) noexcept;
  bool said_goodbye(const std::string& group, int rank) noexcept;

  // What this rank is at that its peers are to wait for, renewed by whoever does it; empty: nothing any more.
  void say_long_work(const std::string& what) noexcept;
  std::string long_work_of(int rank) noexcept;

  // Words that need no text.
  void leave_word(const std::string& at) noexcept;
  bool word_is_left(const std::string& at) noexcept;

 private:
  RendezvousConfig config_;
  std::shared_ptr<KeyValueStore> store_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace lf
