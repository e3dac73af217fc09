// A vendor's library, opened by its absolute path into a scope of its own and never closed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lf::hardware {

class Library {
 public:
  // Throws LF_E_UNSUPPORTED with the loader's reason.
  explicit Library(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }  // resolved

  // Sets `function` to the symbol, or to null; then checks that it comes from `root` (dladdr): libraries of two
  // installations in one process answer each other's calls and fail far away from here.
  template <typename Function>
  bool find(const std::string& symbol, Function& function, const std::filesystem::path& root) const {
    function = reinterpret_cast<Function>(address(symbol, root));
    return function != nullptr;
  }

 private:
  void* address(const std::string& symbol, const std::filesystem::path& root) const;
  std::filesystem::path path_;
  void* handle_;
};

// Files mapped into this process whose names start with one of `names` ("libxpurt.so") but that do not lie under
// `root`.
std::vector<std::filesystem::path> foreign_copies(const std::vector<std::string>& names,
                                                  const std::filesystem::path& root);

// The folder of the file of that very name that this process has mapped; empty: none.
std::filesystem::path folder_of_loaded(const std::string& name);

bool lies_under(const std::filesystem::path& path, const std::filesystem::path& root);

}  // namespace lf::hardware
