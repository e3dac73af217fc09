#include "launch/run_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.h"

namespace lf {
namespace {

[[noreturn]] void cannot(const std::filesystem::path& path, const char* done, int code) {
  fail(Exit::kCannotCreate, "{}: cannot be {}: {}; choose another job.output", path.string(), done,
       std::strerror(code));
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_directory) {
  std::error_code code;
  std::filesystem::create_directories(run_directory, code);
  if (code) cannot(run_directory, "created", code.value());
  const std::filesystem::path path = run_directory / "lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor_ < 0) cannot(path, "opened", errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    std::array<char, 512> text{};
    const ssize_t n = ::pread(descriptor_, text.data(), text.size() - 1, 0);
    ::close(descriptor_);
    if (reason != EWOULDBLOCK) cannot(path, "locked", reason);
    std::string holder(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    fail(Exit::kCannotCreate, "{}: another run works here ({}); wait for it to end, or choose another [job] output",
         run_directory.string(), holder.empty() ? "its process is not known yet" : holder);
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host.data());
  // Only for the message above: the lock itself does not depend on it.
  if (::ftruncate(descriptor_, 0) == 0) (void)!::pwrite(descriptor_, text.data(), text.size(), 0);
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace lf
