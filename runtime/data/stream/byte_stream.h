// Bytes that come one after the other and are read once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

namespace lf {

// A named pipe, or a regular file read from its start to its end. One thread. Waiting for a pipe's writer ends with
// lf::Error(kUnavailable) soon after `stopped` says true. A pipe ends when its last writer has closed it; one that
// nobody has opened yet is waited for.
class ByteStream {
 public:
  // Does not wait. Throws kInputMissing or kPermission, naming data.path.
  ByteStream(const std::filesystem::path& path, std::function<bool()> stopped);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // At least one byte; 0 at the end.
  size_t read_some(std::span<char> out);
  // As many as fit; fewer at the end only.
  size_t read(std::span<char> out);
  // False where the stream ends before. Jumps where it can.
  bool skip(uint64_t count);

  uint64_t offset() const { return offset_; }  // bytes read or skipped
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::function<bool()> stopped_;
  int file_ = -1;
  bool regular_ = false;
  uint64_t size_ = 0;  // of a regular file
  uint64_t offset_ = 0;
};

}  // namespace lf
