#include "comm/membership.h"

#include <thread>

#include "core/error.h"

namespace lf {
namespace {

constexpr int kLooks = 400;  // for two seconds

}  // namespace

Membership::Membership(RendezvousConfig config, std::shared_ptr<KeyValueStore> store)
    : config_(std::move(config)), store_(std::move(store)) {
  if (config_.size < 1 || config_.rank < 0 || config_.rank >= config_.size) {
    fail(Exit::kConfig, "rendezvous: expected 0 <= rank < size, got rank {} of {}; check RANK and WORLD_SIZE",
         config_.rank, config_.size);
  }
  if (config_.size > 1 && !store_) fail(Exit::kBug, "rendezvous: {} ranks need a store", config_.size);
}

void Membership::cancel(const std::string& reason) {
  std::scoped_lock lock(mutex_);
  if (cancelled()) return;
  reason_ = reason;
  cancelled_.store(true, std::memory_order_release);
}

std::string Membership::cancel_reason() const {
  std::scoped_lock lock(mutex_);
  return reason_;
}

void Membership::announce(const std::string& word) noexcept {
  try {
    if (!store_) return;
    if (store_->add(key("failures"), 1) == 1) return store_->set(key("first_failure"), word);
    // Whoever was first may not have come to say it yet: a word that is missing would leave the blame with us.
    for (int look = 0; look < kLooks && !store_->get(key("first_failure")); ++look)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } catch (...) {  // the store went down with the job: peers report what they see themselves
  }
}

std::optional<std::string> Membership::first_word() noexcept {
  try {
    if (!store_) return std::nullopt;
    return store_->get(key("first_failure"));
  } catch (...) {
    return std::nullopt;
  }
}

void Membership::say_goodbye(const std::string& group) noexcept {
  leave_word(group + "/left/" + std::to_string(config_.rank));
}

bool Membership::said_goodbye(const std::string& group, int rank) noexcept {
  return word_is_left(group + "/left/" + std::to_string(rank));
}

void Membership::say_long_work(const std::string& what) noexcept {
  try {
    if (store_) store_->set(key("long_work/" + std::to_string(config_.rank)), what);
  } catch (...) {  // the store went down with the job
  }
}

std::string Membership::long_work_of(int rank) noexcept {
  try {
    return store_ ? store_->get(key("long_work/" + std::to_string(rank))).value_or("") : "";
  } catch (...) {
    return "";
  }
}

void Membership::leave_word(const std::string& at) noexcept {
  try {
    if (store_) store_->set(key(at), "1");
  } catch (...) {  // the store went down with the job, and so did the peers that would ask
  }
}

bool Membership::word_is_left(const std::string& at) noexcept {
  try {
    return store_ && store_->get(key(at)).has_value();
  } catch (...) {
    return false;
  }
}

}  // namespace lf
