// Objects that are known to the host as opaque pointers: a pointer that is stale, or was never ours, is told apart
// instead of followed.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::hardware {

// Find and use overlap freely; a handle that one thread frees while another uses it is the host's mistake.
template <typename Object>
class HandleTable {
 public:
  explicit HandleTable(std::string what) : what_(std::move(what)) {}

  Object* add(std::unique_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    Object* handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  Object& find(const void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(static_cast<Object*>(const_cast<void*>(handle)));
    if (found == objects_.end()) refuse();
    return *found->second;
  }

  std::unique_ptr<Object> take(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(static_cast<Object*>(const_cast<void*>(handle)));
    if (found == objects_.end()) refuse();
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  // All for which `chosen` holds, no longer in the table.
  template <typename Predicate>
  std::vector<std::unique_ptr<Object>> take_if(Predicate&& chosen) {
    const std::lock_guard lock(mutex_);
    std::vector<std::unique_ptr<Object>> taken;
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (!chosen(*it->second)) {
        ++it;
        continue;
      }
      taken.push_back(std::move(it->second));
      it = objects_.erase(it);
    }
    return taken;
  }

  Object* only() const {  // null unless there is exactly one
    const std::lock_guard lock(mutex_);
    return objects_.size() == 1 ? objects_.begin()->second.get() : nullptr;
  }

 private:
  [[noreturn]] void refuse() const {
    throw sdk::Failure(LF_E_INVALID, "this is no " + what_ + ", or it was freed already");
  }
  std::string what_;
  mutable std::mutex mutex_;
  std::unordered_map<Object*, std::unique_ptr<Object>> objects_;
};

}  // namespace lf::hardware
