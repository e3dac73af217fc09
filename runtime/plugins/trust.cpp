#include "plugins/trust.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "plugins/refusal.h"

namespace lf {
namespace {

const char* what_it_is(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

bool trusted_owner(uid_t owner) { return owner == 0 || owner == geteuid(); }

void require_trusted_folder(const std::filesystem::path& folder) {
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0) refuse("{} cannot be looked at: {}", folder.string(), std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) refuse("{} is no longer a folder", folder.string());
  if (!trusted_owner(status.st_uid))
    refuse("expected folders of root or of user {}, got {} of user {}; chown it, or move the plugin", geteuid(),
           folder.string(), status.st_uid);
  const bool others_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  const bool sticky_of_root = (status.st_mode & S_ISVTX) != 0 && status.st_uid == 0;
  if (others_write && !sticky_of_root)
    refuse("expected folders that only their owner may write, got {} with mode {:o}; chmod go-w {}", folder.string(),
           status.st_mode & 07777, folder.string());
}

}  // namespace

OpenFile::~OpenFile() {
  if (fd_ >= 0) close(fd_);
}

OpenFile open_trusted(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    const int reason = errno;
    struct stat status {};
    if (lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
      refuse("expected a regular file, got {}", what_it_is(status.st_mode));
    refuse("cannot be opened: {}", std::strerror(reason));
  }
  struct stat status {};
  OpenFile file(fd, fstat(fd, &status) == 0 ? status : (struct stat){});
  if (!S_ISREG(status.st_mode)) refuse("expected a regular file, got {}", what_it_is(status.st_mode));
  if (!trusted_owner(status.st_uid))
    refuse("expected a file of root or of user {}, got one of user {}; chown it", geteuid(), status.st_uid);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    refuse("expected a file that only its owner may write, got mode {:o}; chmod go-w it", status.st_mode & 07777);
  require_trusted_folders(path.parent_path());
  return file;
}

void require_trusted_folders(const std::filesystem::path& folder) {
  for (std::filesystem::path one = folder;; one = one.parent_path()) {
    require_trusted_folder(one);
    if (one == one.root_path()) break;
  }
}

}  // namespace lf
