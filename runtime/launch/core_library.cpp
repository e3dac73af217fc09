#include "launch/core_library.h"

#include <dlfcn.h>

#include "core/error.h"
#include "core/heap.h"
#include "core/path_error.h"

namespace lf {

std::filesystem::path executable_path() { return std::filesystem::canonical("/proc/self/exe"); }

std::filesystem::path core_path(const std::filesystem::path& executable) {
  return executable.parent_path().parent_path() / "lib" / "liblfcore.so";
}

CoreRun open_core(const std::filesystem::path& executable) {
  const auto path = core_path(executable);
  if (std::error_code error; !std::filesystem::exists(path, error))
    fail(Exit::kUnavailable,
         "{}: the core of lfrun is not there; build it (cmake --build BUILD --target product), or install "
         "lfrun whole",
         path.string());
  require_working_directory();  // oneMKL, which LibTorch opens, would end the process without it
  set_up_heap();                // before LibTorch asks for much
  // The core itself is linked to bind at once. LibTorch below it has 31 thousand functions of its own to bind, a
  // quarter of the time of every start; those wait until they are called.
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    fail(Exit::kUnavailable, "{}: the core of lfrun cannot be opened: {}; build it again, or run tools/setup.sh",
         path.string(), dlerror());
  auto* const run = reinterpret_cast<CoreRun>(dlsym(library, LF_CORE_ENTRY_NAME));
  if (run == nullptr)
    fail(Exit::kUnavailable, "{}: expected the symbol {}, got none; build it again", path.string(), LF_CORE_ENTRY_NAME);
  return run;
}

}  // namespace lf
