#include "hardware/library.h"

#include <algorithm>

#include <dlfcn.h>
#include <link.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::hardware {
namespace fs = std::filesystem;

Library::Library(const fs::path& path) : path_(fs::canonical(path)) {
  handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle_ == nullptr) throw sdk::Failure(LF_E_UNSUPPORTED, dlerror());
}

void* Library::address(const std::string& symbol, const fs::path& root) const {
  void* found = dlsym(handle_, symbol.c_str());
  Dl_info where{};
  if (found == nullptr || dladdr(found, &where) == 0 || where.dli_fname == nullptr) return found;
  if (const fs::path owner = fs::weakly_canonical(where.dli_fname); !lies_under(owner, root))
    throw sdk::Failure(LF_E_UNSUPPORTED, symbol + " comes from " + owner.string() + ", expected it under " +
                                             root.string() + "; start a process that loads one installation only");
  return found;
}

namespace {

// The path of every file that is mapped as a library.
std::vector<fs::path> loaded_files() {
  std::vector<fs::path> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        if (info->dlpi_name != nullptr) static_cast<std::vector<fs::path>*>(found)->emplace_back(info->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

}  // namespace

std::vector<fs::path> foreign_copies(const std::vector<std::string>& names, const fs::path& root) {
  std::vector<fs::path> foreign;
  for (const fs::path& path : loaded_files()) {
    const std::string file = path.filename();
    const bool named =
        std::any_of(names.begin(), names.end(), [&](const auto& name) { return file.starts_with(name); });
    if (named && !lies_under(fs::weakly_canonical(path), root)) foreign.push_back(path);
  }
  return foreign;
}

fs::path folder_of_loaded(const std::string& name) {
  for (const fs::path& path : loaded_files())
    if (path.filename() == name) return fs::weakly_canonical(path).parent_path();
  return {};
}

bool lies_under(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

}  // namespace lf::hardware
