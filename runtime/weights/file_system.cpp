#include "weights/file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lf {
namespace {

namespace fs = std::filesystem;

Exit exit_of(int code) {
  switch (code) {
    case EACCES:
    case EPERM:
    case EROFS:
      return Exit::kPermission;
    case ENOENT:
    case ENOTDIR:
      return Exit::kInputMissing;
    case ENOSPC:
    case EDQUOT:
    case EEXIST:
      return Exit::kCannotCreate;
    default:
      return Exit::kIo;
  }
}

const char* next_move(int code) {
  switch (code) {
    case ENOSPC:
      return "; free some space";
    case EDQUOT:
      return "; free some of your quota";
    case EROFS:
      return "; choose a folder that can be written";
    case EACCES:
    case EPERM:
      return "; check the owner and permissions of the folder";
    case EEXIST:
      return "; remove it, or choose another place";
    default:
      return "";
  }
}

// A signal may end a call before it did anything, on disks that answer late (fallocate of gigabytes, NFS, FUSE): it is
// made again. Not for close(), which on Linux has closed all the same, nor for rename() and mkdir(), which may have
// happened and are told of no EINTR (rename(2), mkdir(2)).
template <typename Call>
int uninterrupted(Call&& call) {
  for (;;)
    if (const int result = call(); result >= 0 || errno != EINTR) return result;
}

class PosixOutputFile final : public OutputFile {
 public:
  PosixOutputFile(int descriptor, fs::path path) : descriptor_(descriptor), path_(std::move(path)) {}
  PosixOutputFile(const PosixOutputFile&) = delete;
  PosixOutputFile& operator=(const PosixOutputFile&) = delete;
  ~PosixOutputFile() override { ::close(descriptor_); }

  void write(uint64_t offset, const void* bytes, uint64_t size) override {
    const char* from = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t n = ::pwrite(descriptor_, from, size, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw FileError(errno, "write", path_);
      if (n == 0) throw FileError(EIO, "write", path_);
      from += n;
      offset += static_cast<uint64_t>(n);
      size -= static_cast<uint64_t>(n);
    }
  }

  void sync() override {
    // After a failed fsync Linux may drop the dirty pages, so a second try would prove nothing: the error stands.
    if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) throw FileError(errno, "fsync", path_);
  }

 private:
  int descriptor_;
  fs::path path_;
};

}  // namespace

FileError::FileError(int code, std::string_view operation, const fs::path& path)
    : Error(exit_of(code),
            fmt::format("{}: {} failed: {}{}", path.string(), operation, std::strerror(code), next_move(code))),
      code_(code) {}

bool FileError::no_space() const { return code_ == ENOSPC || code_ == EDQUOT; }

std::unique_ptr<OutputFile> PosixFileSystem::create(const fs::path& path, uint64_t size) {
  const int descriptor =
      uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644); });
  if (descriptor < 0) throw FileError(errno, "create", path);
  auto file = std::make_unique<PosixOutputFile>(descriptor, path);
  const auto bytes = static_cast<off_t>(size);
  if (size > 0 && uninterrupted([&] { return ::fallocate(descriptor, 0, 0, bytes); }) != 0) {
    if (errno != EOPNOTSUPP && errno != ENOSYS) throw FileError(errno, fmt::format("reserving {} bytes", size), path);
    if (uninterrupted([&] { return ::ftruncate(descriptor, bytes); }) != 0) throw FileError(errno, "resize", path);
  }
  return file;
}

std::unique_ptr<OutputFile> PosixFileSystem::open(const fs::path& path) {
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW); });
  if (descriptor < 0) throw FileError(errno, "open", path);
  return std::make_unique<PosixOutputFile>(descriptor, path);
}

void PosixFileSystem::make_directory(const fs::path& path) {
  if (::mkdir(path.c_str(), 0777) != 0) throw FileError(errno, "mkdir", path);
}

void PosixFileSystem::rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw FileError(errno, "rename of " + from.string() + " to it", to);
}

bool PosixFileSystem::exchange(const fs::path& a, const fs::path& b) {
  if (::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS) return false;
  throw FileError(errno, "exchange with " + a.string(), b);
}

void PosixFileSystem::remove(const fs::path& path) {
  if (::remove(path.c_str()) != 0) throw FileError(errno, "remove", path);
}

void PosixFileSystem::sync_directory(const fs::path& path) {
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor < 0) throw FileError(errno, "open", path);
  const int result = uninterrupted([&] { return ::fsync(descriptor); });
  const int code = errno;
  ::close(descriptor);
  if (result != 0 && code != EINVAL) throw FileError(code, "fsync", path);  // EINVAL: folders cannot be synced there
}

uint64_t PosixFileSystem::available_bytes(const fs::path& path) {
  fs::path there = fs::absolute(path);
  std::error_code ignored;
  while (!fs::exists(there, ignored) && there.has_parent_path() && there != there.parent_path())
    there = there.parent_path();
  struct statvfs info {};
  if (::statvfs(there.c_str(), &info) != 0) throw FileError(errno, "statvfs", there);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

void write_file(FileSystem& files, const fs::path& path, std::string_view bytes) {
  const auto file = files.create(path, bytes.size());
  file->write(0, bytes.data(), bytes.size());
  file->sync();
}

void remove_tree(FileSystem& files, const fs::path& path) {
  std::error_code code;
  const fs::file_status status = fs::symlink_status(path, code);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() == fs::file_type::directory) {
    fs::directory_iterator entries(path, code);
    if (code) throw FileError(code.value(), "listing", path);
    for (const fs::directory_entry& entry : entries) remove_tree(files, entry.path());
  }
  files.remove(path);
}

void replace_tree(FileSystem& files, const fs::path& fresh, const fs::path& target) {
  fs::path old = target;
  old += ".old";
  const fs::path folder = target.parent_path();
  std::error_code code;
  if (!fs::exists(fs::symlink_status(target, code))) {
    files.rename(fresh, target);
    files.sync_directory(folder);
    return;
  }
  if (files.exchange(fresh, target)) {
    files.sync_directory(folder);
    remove_tree(files, fresh);
    return;
  }
  remove_tree(files, old);
  files.rename(target, old);
  files.rename(fresh, target);
  files.sync_directory(folder);
  remove_tree(files, old);
}

void for_each_chunk(const fs::path& path, const std::function<void(std::span<const std::byte>)>& visit) {
  constexpr size_t kChunk = 4 << 20;
  // Without O_NONBLOCK, opening a named pipe would wait for ever.
  const int descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (descriptor < 0) throw FileError(errno, "open", path);
  const PosixOutputFile closes(descriptor, path);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) throw FileError(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) fail(Exit::kBadData, "{}: expected a regular file", path.string());
  std::vector<std::byte> chunk(std::min(kChunk, static_cast<size_t>(info.st_size)));
  while (!chunk.empty()) {
    const ssize_t n = ::read(descriptor, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FileError(errno, "read", path);
    if (n == 0) return;
    visit({chunk.data(), static_cast<size_t>(n)});
  }
}

std::string read_text_file(const fs::path& path, uint64_t limit) {
  std::error_code code;
  const uint64_t bytes = fs::file_size(path, code);
  if (!code && bytes > limit)
    fail(Exit::kBadData, "{}: expected at most {} bytes, got {}", path.string(), limit, bytes);
  std::string text;
  for_each_chunk(path, [&](std::span<const std::byte> chunk) {
    text.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    if (text.size() > limit) fail(Exit::kBadData, "{}: expected at most {} bytes, got more", path.string(), limit);
  });
  return text;
}

}  // namespace lf
