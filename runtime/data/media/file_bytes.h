// Files that a data set names, read with the distrust they deserve.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lf {

// An open regular file, or bytes that are read like one. Every failure is sdk::Failure(LF_E_DATA) that starts with the
// path. Never blocks on what is no regular file.
class MediaFile {
 public:
  explicit MediaFile(const std::string& path);
  MediaFile(const std::string& name, std::shared_ptr<const std::string> bytes);
  ~MediaFile();
  MediaFile(const MediaFile&) = delete;
  MediaFile& operator=(const MediaFile&) = delete;

  // With size(), the same only where the content is, as far as a file system tells.
  struct Identity {
    uint64_t device = 0, inode = 0;
    int64_t changed_ns = 0;
  };

  const std::string& path() const { return path_; }
  const Identity& identity() const { return identity_; }
  const std::string* held() const { return bytes_.get(); }  // null: a file
  uint64_t size() const { return size_; }
  // Reads up to out.size() bytes from `offset`; returns how many there were.
  size_t read(uint64_t offset, std::span<uint8_t> out) const;
  std::vector<uint8_t> read_all(uint64_t at_most) const;
  [[noreturn]] void fail(const std::string& reason) const;

 private:
  std::string path_;
  int file_ = -1;
  std::shared_ptr<const std::string> bytes_;
  uint64_t size_ = 0;
  Identity identity_;
};

// A window that moves over a file, for parsers that skip most of it.
class HeaderReader {
 public:
  explicit HeaderReader(const MediaFile& file) : file_(file) {}

  // The bytes [offset, offset + count), or a failure "ends early". Valid until the next call. count <= 64 KiB.
  std::span<const uint8_t> bytes(uint64_t offset, size_t count);
  uint8_t u8(uint64_t offset) { return bytes(offset, 1)[0]; }
  uint16_t u16_big(uint64_t offset);
  uint32_t u32_big(uint64_t offset);
  uint32_t u32_little(uint64_t offset);

 private:
  const MediaFile& file_;
  std::vector<uint8_t> window_;
  uint64_t start_ = 0;
};

}  // namespace lf
