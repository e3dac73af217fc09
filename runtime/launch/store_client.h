// A worker's end of the launcher's store. No LibTorch here: a c10d::Store or another interface is made of it elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lf {

// Safe from any thread; calls take turns, and so do waits, which have a connection of their own. Throws
// lf::Error(kUnavailable) when the server is gone or silent for `reply_limit`, after which every call throws.
class StoreClient {
 public:
  explicit StoreClient(const std::filesystem::path& socket_path,
                       std::chrono::milliseconds reply_limit = std::chrono::seconds(30));
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> get(const std::string& key);  // none: absent
  int64_t add(const std::string& key, int64_t amount);     // of an absent key: 0 + amount
  bool check(const std::vector<std::string>& keys);        // all there
  bool erase(const std::string& key);                      // false: there was none
  int64_t num_keys();
  // Sets `desired` where the value is `expected` (absent counts as empty) and returns what then stands there; where an
  // absent key was expected to have a value, `expected` comes back.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);

  // Until all keys are there: true; false: not within the limit, or `cancelled` said so, which is asked every 20 ms.
  bool wait(const std::vector<std::string>& keys, std::chrono::milliseconds limit,
            const std::function<bool()>& cancelled = {});

 private:
  class Link;
  std::unique_ptr<Link> calls_, waits_;
};

}  // namespace lf
