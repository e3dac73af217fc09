#include <charconv>
#include <map>
#include <mutex>

#include "comm/key_value_store.h"

namespace lf {
namespace {

class InProcessStore final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    std::scoped_lock lock(mutex_);
    values_[key] = value;
  }
  std::optional<std::string> get(const std::string& key) override {
    std::scoped_lock lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  int64_t add(const std::string& key, int64_t amount) override {
    std::scoped_lock lock(mutex_);
    std::string& text = values_[key];
    int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    text = std::to_string(value + amount);
    return value + amount;
  }
  bool erase(const std::string& key) override {
    std::scoped_lock lock(mutex_);
    return values_.erase(key) > 0;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

}  // namespace

std::shared_ptr<KeyValueStore> in_process_store() { return std::make_shared<InProcessStore>(); }

}  // namespace lf
