#include "comm/gloo_store.h"

#include <algorithm>
#include <thread>

#include "core/error.h"

namespace lf {

StoreForGloo::StoreForGloo(std::shared_ptr<Membership> membership, std::string prefix)
    : c10d::Store(membership->config().form_timeout), membership_(std::move(membership)), prefix_(std::move(prefix)) {}

c10::intrusive_ptr<c10d::Store> StoreForGloo::clone() {
  return c10::make_intrusive<StoreForGloo>(membership_, prefix_);
}

void StoreForGloo::set(const std::string& key, const std::vector<uint8_t>& value) {
  membership_->store().set(prefix_ + key, std::string(value.begin(), value.end()));
}

std::vector<uint8_t> StoreForGloo::get(const std::string& key) {
  wait({key}, timeout_);
  const std::string value = membership_->store().get(prefix_ + key).value();
  return {value.begin(), value.end()};
}

int64_t StoreForGloo::add(const std::string& key, int64_t value) {
  return membership_->store().add(prefix_ + key, value);
}

bool StoreForGloo::deleteKey(const std::string& key) { return membership_->store().erase(prefix_ + key); }

bool StoreForGloo::check(const std::vector<std::string>& keys) {
  return std::all_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return membership_->store().get(prefix_ + key).has_value(); });
}

int64_t StoreForGloo::getNumKeys() { fail(Exit::kBug, "store: the number of keys is not kept"); }

void StoreForGloo::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void StoreForGloo::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto pause = std::chrono::microseconds(200);
  while (!check(keys)) {
    if (membership_->cancelled()) fail(Exit::kUnavailable, "cancelled");
    if (std::chrono::steady_clock::now() > deadline)
      fail(Exit::kUnavailable, "not all ranks came within {} ms", timeout.count());
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10'000));
  }
}

}  // namespace lf
