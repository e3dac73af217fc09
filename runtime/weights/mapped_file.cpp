#include "weights/mapped_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights/file_system.h"

namespace lf {

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a named pipe would wait for ever.
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw FileError(errno, "open", path_);
  struct stat info {};
  const bool regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  const size_t size = regular ? static_cast<size_t>(info.st_size) : 0;
  void* memory = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0) : nullptr;
  const int code = errno;
  ::close(descriptor);
  if (!regular) fail(Exit::kBadData, "{}: expected a regular file", path_.string());
  if (memory == MAP_FAILED) throw FileError(code, "mmap", path_);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lf
