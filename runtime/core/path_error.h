// A failure of std::filesystem on a path that somebody gave: theirs to mend, so never told as a bug.
#pragma once

#include <filesystem>

#include "core/error.h"

namespace lf {

// Throws where the working directory was removed: relative paths then have no meaning, and libraries end the process.
inline void require_working_directory() {
  std::error_code gone;
  static_cast<void>(std::filesystem::current_path(gone));
  if (gone)
    fail(Exit::kInputMissing,
         "the working directory cannot be found: {}; it was removed under this shell: cd to one that exists",
         gone.message());
}

// For the last catch of a program, where no nearer place knew better.
inline Error path_error(const std::filesystem::filesystem_error& error) {
  try {
    require_working_directory();
  } catch (const Error& gone) {
    return gone;
  }
  const std::string path = error.path1().empty() ? "a path" : error.path1().string();
  return {exit_of_unreadable(error.code().value()), fmt::format("{}: {}", path, error.code().message())};
}

}  // namespace lf
