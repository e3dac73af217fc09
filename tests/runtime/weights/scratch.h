// A folder of the test's own, and whole files as strings.
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"

namespace lf::test {

class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& base = std::filesystem::temp_directory_path()) {
    std::string name = (base / "lf-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// In memory where there is such a place: for tests of small files that sync thousands of times.
class MemoryScratch : public Scratch {
 public:
  MemoryScratch() : Scratch(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path()) {}
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void spit(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// Every regular file under a folder, by relative name.
inline std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) all[entry.path().lexically_relative(folder).string()] = slurp(entry.path());
  }
  return all;
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

template <typename T>
std::string as_string(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// What `body` throws, as "<exit code> <message>"; "nothing" where it throws nothing.
template <typename Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
  }
  return "nothing";
}

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(LF_SOURCE_DIR) / "tests/runtime/weights/fixtures" / name;
}

}  // namespace lf::test
