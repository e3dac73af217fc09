#include "vendor/installation.h"

#include <vector>

namespace lf::kunlun {
namespace fs = std::filesystem;
namespace {

// The vendor's packages put the runtime and the collectives into sibling folders of one root, or all into one folder.
constexpr const char* kFolders[] = {".", "so", "lib", "lib64", "xpu/so", "xpu/lib64", "xre/so", "xccl/so"};
constexpr const char* kUsualRoots[] = {"/usr/local/xpu", "/usr/local", "/opt/xre", "/opt"};

fs::path find_file(const fs::path& root, const std::vector<const char*>& names) {
  std::error_code ignored;
  for (const char* folder : kFolders)
    for (const char* name : names)
      if (const fs::path file = root / folder / name; fs::is_regular_file(file, ignored)) return fs::canonical(file);
  return {};
}

}  // namespace

std::optional<Installation> find_installation(const Environment& environment, std::string& searched) {
  std::vector<fs::path> roots(std::begin(kUsualRoots), std::end(kUsualRoots));
  searched = "no libxpurt.so under ";
  if (const auto home = environment("LF_KUNLUN_HOME")) {
    roots = {*home};
    searched = "LF_KUNLUN_HOME names a folder without libxpurt.so: ";
  }
  for (const fs::path& root : roots) {
    searched += (root == roots.front() ? "" : ", ") + root.string();
    Installation found;
    found.runtime = find_file(root, {"libxpurt.so", "libxpurt.so.2", "libxpurt.so.1"});
    if (found.runtime.empty()) continue;
    found.root = fs::canonical(root);
    found.management = find_file(root, {"libxpuml.so", "libxpuml.so.1"});
    found.collectives = find_file(root, {"libbkcl.so"});
    found.shim = find_file(root, {"liblf_bkcl_shim.so"});
    return found;
  }
  if (!environment("LF_KUNLUN_HOME")) searched += "; set LF_KUNLUN_HOME to the folder of the vendor's libraries";
  return std::nullopt;
}

}  // namespace lf::kunlun
