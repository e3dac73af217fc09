// Errors of the whole runtime: thrown as lf::Error, caught at the C ABI and in main, nowhere else but to add context.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace lf {

// What the process exits with (sysexits.h), and so what scripts and schedulers can act on.
enum class Exit : int {
  kDone = 0,
  kMismatch = 1,  // `lfrun parity`: the numbers differ
  kUsage = 64,
  kBadData = 65,
  kInputMissing = 66,
  kUnavailable = 69,  // a device or a peer
  kBug = 70,
  kCannotCreate = 73,
  kIo = 74,
  kSavedRunAgain = 75,
  kPermission = 77,
  kConfig = 78,  // job file or plugin refused
};

// Of an input that cannot be opened or read, by its errno: kPermission, kInputMissing, or kIo.
inline Exit exit_of_unreadable(int code) {
  switch (code) {
    case EACCES:
    case EPERM:
      return Exit::kPermission;
    case EIO:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return Exit::kIo;
    default:
      return Exit::kInputMissing;
  }
}

// A message names the place, what was expected, what came, and the next move.
class Error : public std::runtime_error {
 public:
  Error(Exit exit, const std::string& message) : std::runtime_error(message), exit_(exit) {}
  Exit exit() const { return exit_; }

 private:
  Exit exit_;
};

// fail(Exit::kBadData, "{}: expected {}, got {}; {}", place, expected, got, next_move)
template <typename... Args>
[[noreturn]] void fail(Exit exit, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(exit, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace lf
