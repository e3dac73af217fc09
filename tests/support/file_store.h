// A key-value store of files in a folder, for ranks that are forked by a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "comm/key_value_store.h"
#include "support/scratch_folder.h"

namespace lf::test {

class FileStore final : public KeyValueStore {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }
  void set(const std::string& key, const std::string& value) override {
    const auto draft = folder_ / (".draft" + std::to_string(getpid()) + "-" + std::to_string(gettid()));
    std::ofstream(draft, std::ios::binary) << value;
    std::filesystem::rename(draft, path(key));
  }
  std::optional<std::string> get(const std::string& key) override {
    std::ifstream file(path(key), std::ios::binary);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  int64_t add(const std::string& key, int64_t amount) override {
    const int lock = open((folder_ / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    flock(lock, LOCK_EX);
    const int64_t value = std::atoll(get(key).value_or("0").c_str()) + amount;
    set(key, std::to_string(value));
    close(lock);
    return value;
  }
  bool erase(const std::string& key) override { return std::filesystem::remove(path(key)); }

 private:
  std::filesystem::path path(std::string key) const {
    for (char& c : key) {
      if (c == '/') c = '+';
    }
    return folder_ / key;
  }
  std::filesystem::path folder_;
};

}  // namespace lf::test
