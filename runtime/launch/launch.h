// lfrun: arguments, the workers of this host, exit codes. Knows no LibTorch, no vendor, no model.
#pragma once

#include <string>
#include <vector>

#include "launch/environment.h"

namespace lf {

// Does what the arguments (without the program's name) ask for and returns the exit code. Writes results to stdout and
// remarks to stderr. Throws lf::Error. The caller ends the process by _exit: the core may be open.
int run_lfrun(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace lf
