#include "data/stream/byte_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "data/path_text.h"

namespace lf {
namespace {

constexpr int kPollMs = 100;  // how soon a stop is seen
constexpr size_t kSkipChunk = 1 << 16;

}  // namespace

ByteStream::ByteStream(const std::filesystem::path& path, std::function<bool()> stopped)
    : path_(path), stopped_(std::move(stopped)) {
  // O_NONBLOCK: a pipe without a writer is waited for in read_some(), where a stop is seen.
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file_ < 0)
    fail(errno == EACCES ? Exit::kPermission : Exit::kInputMissing, "{}: cannot open the stream: {}; check data.path",
         readable(path.string()), std::strerror(errno));
  struct stat status {};
  regular_ = ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode);
  size_ = regular_ ? static_cast<uint64_t>(status.st_size) : 0;
}

ByteStream::~ByteStream() { ::close(file_); }

size_t ByteStream::read_some(std::span<char> out) {
  for (;;) {
    if (stopped_())
      fail(Exit::kUnavailable, "{}: the stream is read no further, the run is ending", readable(path_.string()));
    if (!regular_) {
      pollfd waited{file_, POLLIN, 0};
      if (::poll(&waited, 1, kPollMs) <= 0) continue;
    }
    const ssize_t got = ::read(file_, out.data(), out.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) fail(Exit::kIo, "{}: cannot read the stream: {}", readable(path_.string()), std::strerror(errno));
    offset_ += static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }
}

size_t ByteStream::read(std::span<char> out) {
  size_t done = 0;
  while (done < out.size()) {
    const size_t got = read_some(out.subspan(done));
    if (got == 0) break;
    done += got;
  }
  return done;
}

bool ByteStream::skip(uint64_t count) {
  if (regular_) {
    if (count > size_ - std::min(size_, offset_)) return false;
    if (::lseek(file_, static_cast<off_t>(count), SEEK_CUR) < 0)
      fail(Exit::kIo, "{}: cannot read the stream: {}", readable(path_.string()), std::strerror(errno));
    offset_ += count;
    return true;
  }
  std::vector<char> ignored(std::min<uint64_t>(count, kSkipChunk));
  while (count > 0) {
    const size_t got = read_some(std::span(ignored).first(std::min<uint64_t>(count, ignored.size())));
    if (got == 0) return false;
    count -= got;
  }
  return true;
}

}  // namespace lf
