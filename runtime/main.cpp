// The one place where an error becomes an exit code.
#include <cstdio>
#include <exception>

#include <unistd.h>

#include "core/error.h"
#include "core/path_error.h"
#include "core/standard_descriptors.h"
#include "launch/launch.h"

namespace {

int run(int argc, char** argv) {
  try {
    return lf::run_lfrun({argv + 1, argv + argc}, lf::process_environment());
  } catch (const lf::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit());
  } catch (const std::filesystem::filesystem_error& error) {
    const lf::Error told = lf::path_error(error);
    std::fprintf(stderr, "%s\n", told.what());
    return static_cast<int>(told.exit());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lfrun: internal error: %s; please report it\n", error.what());
    return static_cast<int>(lf::Exit::kBug);
  }
}

}  // namespace

int main(int argc, char** argv) {
  lf::fill_standard_descriptors();
  const int code = run(argc, argv);
  // Where output cannot be written (a full disk, a closed pipe), success would be a lie.
  const bool written = std::fflush(nullptr) == 0 && std::ferror(stdout) == 0;
  _exit(code == 0 && !written ? static_cast<int>(lf::Exit::kIo) : code);
}
