#include "data/line_index.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/error.h"
#include "data/path_text.h"

namespace lf {
namespace {

constexpr size_t kChunk = 1 << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

size_t read_some(int file, const std::filesystem::path& path, char* out, size_t bytes, uint64_t offset) {
  for (;;) {
    const ssize_t got = ::pread(file, out, bytes, static_cast<off_t>(offset));
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail(Exit::kIo, "{}: cannot read: {}", readable(path.string()), std::strerror(errno));
  }
}

}  // namespace

LineIndex::LineIndex(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK: a named pipe must be refused below, not waited for.
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) {
    const Exit exit = errno == EACCES ? Exit::kPermission : Exit::kInputMissing;
    fail(exit, "{}: cannot open the data set: {}; check data.path", readable(path.string()), std::strerror(errno));
  }
  try {
    struct stat status {};
    if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode))
      fail(Exit::kBadData, "{}: expected a regular file of JSON lines; check data.path", readable(path.string()));
    bytes_ = static_cast<uint64_t>(status.st_size);
    scan();
  } catch (...) {
    ::close(file_);
    throw;
  }
}

LineIndex::~LineIndex() {
  if (file_ >= 0) ::close(file_);
}

LineIndex::LineIndex(LineIndex&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      bytes_(other.bytes_),
      content_hash_(std::move(other.content_hash_)),
      starts_(std::move(other.starts_)),
      shifts_(std::move(other.shifts_)) {}

void LineIndex::scan() {
  std::string chunk(kChunk, '\0');
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(hash.get());
  uint64_t line = 1, start = 0, offset = 0;
  bool blank = true;
  const auto end_line = [&] {
    if (!blank) {
      if (shifts_.empty() || shifts_.back().second != line - starts_.size())
        shifts_.emplace_back(starts_.size(), line - starts_.size());
      starts_.push_back(start);
    }
    ++line;
    blank = true;
  };
  while (offset < bytes_) {
    const size_t got = read_some(file_, path_, chunk.data(), chunk.size(), offset);
    if (got == 0) break;  // shrunk since fstat: what is there is what is indexed
    XXH3_128bits_update(hash.get(), chunk.data(), got);
    size_t at = 0;
    if (offset == 0 && got >= 3 && chunk.compare(0, 3, "\xEF\xBB\xBF") == 0) at = start = 3;  // a byte order mark
    while (at < got) {
      const void* found = std::memchr(chunk.data() + at, '\n', got - at);
      const size_t end = found != nullptr ? static_cast<size_t>(static_cast<const char*>(found) - chunk.data()) : got;
      if (blank) blank = std::all_of(chunk.data() + at, chunk.data() + end, is_blank);
      at = end;
      if (found == nullptr) break;
      end_line();
      start = offset + ++at;
    }
    offset += got;
  }
  bytes_ = offset;
  const XXH128_hash_t digest = XXH3_128bits_digest(hash.get());
  content_hash_ = fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
  end_line();
  starts_.shrink_to_fit();
}

std::string LineIndex::head(size_t bytes) const {
  std::string out(bytes, '\0');
  out.resize(read_some(file_, path_, out.data(), out.size(), 0));
  return out;
}

uint64_t LineIndex::line_number(uint64_t index) const {
  const auto after = std::upper_bound(shifts_.begin(), shifts_.end(), index,
                                      [](uint64_t i, const auto& shift) { return i < shift.first; });
  return index + std::prev(after)->second;
}

uint64_t LineIndex::extent(uint64_t index) const {
  return (index + 1 < starts_.size() ? starts_[index + 1] : bytes_) - starts_[index];
}

std::string LineIndex::read(uint64_t index, size_t padding) const {
  const uint64_t size = extent(index);
  std::string line;
  line.reserve(size + padding);
  line.resize(size);
  for (uint64_t done = 0; done < size;) {
    const size_t got = read_some(file_, path_, line.data() + done, size - done, starts_[index] + done);
    if (got == 0)
      fail(Exit::kIo, "{}:{}: expected {} bytes, got {}: the file has shrunk since it was opened; start again",
           readable(path_.string()), line_number(index), size, done);
    done += got;
  }
  while (!line.empty() && (is_blank(line.back()) || line.back() == '\n')) line.pop_back();
  const size_t length = line.size();
  line.resize(length + padding, '\0');
  line.resize(length);  // keeps the zeroed bytes beyond its end
  return line;
}

}  // namespace lf
