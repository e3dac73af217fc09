// One reader of untrusted bytes under fuzz. Each target is a program: with LF_BUILD_FUZZERS and clang driven by
// libFuzzer, else by replay.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

// libFuzzer's entry. What a target allows to be thrown it catches; anything else is a find.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace lf::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The bytes as a file with a path, for readers that take one.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (file_ < 0 || ::write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) __builtin_trap();
    ::lseek(file_, 0, SEEK_SET);
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  int file() const { return file_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

// Error texts go to logs and terminals: none may be empty or longer than a reader of logs bears.
inline void check_message(std::string_view message) {
  if (message.empty() || message.size() > 20'000) __builtin_trap();
}

}  // namespace lf::fuzz
