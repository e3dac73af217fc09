// A failure of std::filesystem on a path that somebody gave: theirs to mend, so never told as a bug.
#pragma once

#include <filesystem>

#include "core/error.h"

namespace lf {

// For the last catch of a program, where no nearer place knew better. A relative path has no meaning once the working
// directory is removed: that is then what is told.
inline Error path_error(const std::filesystem::filesystem_error& error) {
  std::error_code gone;
  static_cast<void>(std::filesystem::current_path(gone));
  if (gone)
    return {Exit::kInputMissing, fmt::format("the working directory cannot be found: {}; it was removed under this "
                                             "shell: cd to one that exists",
                                             gone.message())};
  const std::string path = error.path1().empty() ? "a path" : error.path1().string();
  return {exit_of_unreadable(error.code().value()), fmt::format("{}: {}", path, error.code().message())};
}

}  // namespace lf
