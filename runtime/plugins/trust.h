// A file that only root or this user can have put there, opened for reading.
#pragma once

#include <filesystem>
#include <utility>

#include <sys/stat.h>

namespace lf {

class OpenFile {
 public:
  OpenFile(int fd, const struct stat& status) : fd_(fd), status_(status) {}
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), status_(other.status_) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile();

  int fd() const { return fd_; }
  const struct stat& status() const { return status_; }
  uint64_t size() const { return static_cast<uint64_t>(status_.st_size); }

 private:
  int fd_;
  struct stat status_;
};

// Throws Refusal unless `folder`, without symbolic links, and all above it are as open_trusted demands of folders.
void require_trusted_folders(const std::filesystem::path& folder);

// `path`: in a folder without symbolic links. Throws Refusal unless it is a regular file, not a symbolic link, owned by
// root or the effective user, and neither it nor any folder above it may be written by group or others. A folder of
// root's with the sticky bit (/tmp) is allowed, since nobody can replace another's file there. Opening never blocks.
OpenFile open_trusted(const std::filesystem::path& path);

}  // namespace lf
