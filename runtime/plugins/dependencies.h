// Which files the dynamic linker will load with a plugin, worked out by reading (ld.so(8)): nothing is opened by it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lf {

struct Dependency {
  std::string name;            // as it is needed: "libcudart.so.13"
  std::filesystem::path path;  // real path; empty: not found
  std::string soname;          // what the file calls itself
  std::string needed_by;       // file name of the first that needs it
};

// All libraries of the file, near ones first, each once. `library_path`: the value of LD_LIBRARY_PATH. Files that are
// no x86-64 libraries are passed over, as the linker does.
std::vector<Dependency> dependencies_of(const std::filesystem::path& file, const std::string& library_path);

// Two different files that provide one vendor library (CUDA's, NCCL's, Kunlun's ...) in one process hand each other's
// objects to the wrong copy and fail far from here.
class VendorLibraries {
 public:
  // `library_path`: the value of LD_LIBRARY_PATH.
  explicit VendorLibraries(const std::string& library_path);
  ~VendorLibraries();

  // Takes `file` as loaded too. Or says why it must not be loaded beside those taken before, naming both paths; then it
  // is not taken.
  std::optional<std::string> take(const std::filesystem::path& file);

 private:
  struct Provider {
    std::filesystem::path library, file;
  };
  std::unique_ptr<class DependencySearch> search_;
  std::map<std::string, Provider> providers_;  // by name of the library
};

// Why `files` must not be loaded together; none where all is well.
std::optional<std::string> vendor_conflict(const std::vector<std::filesystem::path>& files,
                                           const std::string& library_path);

}  // namespace lf
