// liblfcore.so, opened.
#pragma once

#include <filesystem>

#include "launch/core_entry.h"

namespace lf {

using CoreRun = int (*)(const lf_core_request*);

// The executable's own path, links resolved.
std::filesystem::path executable_path();

// Where its core is: ../lib/liblfcore.so.
std::filesystem::path core_path(const std::filesystem::path& executable);

// Opens ../lib/liblfcore.so of the executable: never closed, out of everybody else's symbol scope. Throws
// lf::Error(kUnavailable) naming the file where it is absent or cannot be opened.
CoreRun open_core(const std::filesystem::path& executable);

}  // namespace lf
