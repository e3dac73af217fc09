#include "core/append_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"
#include "core/whole_file.h"

namespace lf {
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

}  // namespace lf
