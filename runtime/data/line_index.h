// Where the lines of a text file begin, so that any of them is read at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lf {

// The non-blank lines of one file: 8 bytes of memory each. Read by pread, not mapped: a file that shrinks under a
// mapping would end the process by SIGBUS. Thread-safe once made.
class LineIndex {
 public:
  // Reads the file once. Throws lf::Error: kInputMissing, kPermission or kBadData (not a regular file).
  explicit LineIndex(const std::filesystem::path& path);
  ~LineIndex();
  LineIndex(LineIndex&& other) noexcept;
  LineIndex(const LineIndex&) = delete;

  uint64_t size() const { return starts_.size(); }
  // xxh3-128 of all bytes, as 32 digits: taken while they were indexed.
  const std::string& content_hash() const { return content_hash_; }
  // The file's first bytes, at most so many.
  std::string head(size_t bytes) const;
  // As an editor counts, from 1; blank lines count.
  uint64_t line_number(uint64_t index) const;
  // Bytes up to the next non-blank line; more than the line by its line end and blank lines after it.
  uint64_t extent(uint64_t index) const;
  // Without its line end, followed by `padding` zero bytes beyond size(). Throws Error(kIo) where the file has shrunk.
  // Call only where extent() is at most what memory allows.
  std::string read(uint64_t index, size_t padding) const;

 private:
  void scan();

  std::filesystem::path path_;
  int file_ = -1;
  uint64_t bytes_ = 0;
  std::string content_hash_;
  std::vector<uint64_t> starts_;
  // From this index on, the line number is the index plus this.
  std::vector<std::pair<uint64_t, uint64_t>> shifts_;
};

}  // namespace lf
