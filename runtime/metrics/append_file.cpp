#include "metrics/append_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"

namespace lf {
namespace {

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0)
    fail(Exit::kCannotCreate, "{}: {}; check the run directory", path_.string(), std::strerror(errno));
}

AppendFile::~AppendFile() { close(descriptor_); }

void AppendFile::append(std::string_view record) {
  const off_t before = lseek(descriptor_, 0, SEEK_END);
  if (write_all(descriptor_, record)) return;
  const int why = errno;
  if (before >= 0 && ftruncate(descriptor_, before) != 0) {
    fail(Exit::kIo, "{}: {}, and its last record is cut off; make room", path_.string(), std::strerror(why));
  }
  fail(Exit::kIo, "{}: {}; make room", path_.string(), std::strerror(why));
}

void replace_file(const std::filesystem::path& path, std::string_view content) {
  const std::string draft = path.string() + ".new";
  const int descriptor = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(Exit::kIo, "{}: {}; check the run directory", draft, std::strerror(errno));
  const bool written = write_all(descriptor, content);
  const int why = errno;
  close(descriptor);
  if (!written || std::rename(draft.c_str(), path.c_str()) != 0) {
    const int code = written ? errno : why;
    unlink(draft.c_str());
    fail(Exit::kIo, "{}: {}; make room", path.string(), std::strerror(code));
  }
}

}  // namespace lf
