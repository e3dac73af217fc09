#include "data/media/file_bytes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/path_text.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

constexpr size_t kWindow = 4096;  // enough for the headers of most files in one read

}  // namespace

MediaFile::MediaFile(const std::string& path) : path_(path) {
  if (path.find('\0') != path.npos) throw sdk::Failure(LF_E_DATA, "a media path with a NUL in it");
  // O_NONBLOCK: a named pipe must be refused below, not waited for.
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file_ < 0) fail(std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
  size_ = static_cast<uint64_t>(status.st_size);
  identity_ = {status.st_dev, status.st_ino, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
  if (regular && size_ > 0) return;
  ::close(file_);
  fail(regular ? "the file is empty" : "not a regular file");
}

MediaFile::MediaFile(const std::string& name, std::shared_ptr<const std::string> bytes)
    : path_(name), bytes_(std::move(bytes)), size_(bytes_->size()) {
  if (size_ == 0) fail("the file is empty");
}

MediaFile::~MediaFile() {
  if (file_ >= 0) ::close(file_);
}

size_t MediaFile::read(uint64_t offset, std::span<uint8_t> out) const {
  if (bytes_) {
    const size_t count = offset < size_ ? std::min<uint64_t>(out.size(), size_ - offset) : 0;
    std::copy_n(bytes_->data() + (count > 0 ? offset : 0), count, out.begin());
    return count;
  }
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(file_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

std::vector<uint8_t> MediaFile::read_all(uint64_t at_most) const {
  if (size_ > at_most) fail(fmt::format("a file of {} bytes; expected at most {}", size_, at_most));
  std::vector<uint8_t> bytes(size_);
  bytes.resize(read(0, bytes));
  return bytes;
}

void MediaFile::fail(const std::string& reason) const {
  throw sdk::Failure(LF_E_DATA, readable(path_) + ": " + reason);
}

std::span<const uint8_t> HeaderReader::bytes(uint64_t offset, size_t count) {
  if (offset < start_ || offset + count > start_ + window_.size()) {
    window_.resize(std::max(kWindow, count));
    window_.resize(file_.read(offset, window_));
    start_ = offset;
    if (window_.size() < count) file_.fail("the file ends early");
  }
  return std::span<const uint8_t>(window_).subspan(offset - start_, count);
}

uint16_t HeaderReader::u16_big(uint64_t offset) {
  const auto b = bytes(offset, 2);
  return static_cast<uint16_t>(b[0] << 8 | b[1]);
}

uint32_t HeaderReader::u32_big(uint64_t offset) {
  const auto b = bytes(offset, 4);
  return static_cast<uint32_t>(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3];
}

uint32_t HeaderReader::u32_little(uint64_t offset) {
  const auto b = bytes(offset, 4);
  return static_cast<uint32_t>(b[3]) << 24 | b[2] << 16 | b[1] << 8 | b[0];
}

}  // namespace lf
