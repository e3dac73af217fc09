#include "vendor/installation.h"

#include <vector>

namespace lf::kunlun {
namespace fs = std::filesystem;
namespace {

// The vendor's packages put the runtime and the collectives into sibling folders of one root, or all into one folder.
constexpr const char* kFolders[] = {".",         "so",     "lib",     "lib64",      "xpu/so",
                                    "xpu/lib64", "xre/so", "xccl/so", "xcudart/lib"};
constexpr const char* kUsualRoots[] = {"usr/local/xpu", "usr/local", "opt/xre", "opt"};

fs::path find_file(const fs::path& root, const std::vector<const char*>& names) {
  std::error_code ignored;
  for (const char* folder : kFolders)
    for (const char* name : names)
      if (const fs::path file = root / folder / name; fs::is_regular_file(file, ignored)) return fs::canonical(file);
  return {};
}

std::string joined(const std::vector<fs::path>& places) {
  std::string text;
  for (const fs::path& place : places) text += (text.empty() ? "" : ", ") + place.string();
  return text;
}

// What lies under one root; without `runtime`: nothing.
Installation installation_under(const fs::path& root) {
  Installation found;
  found.runtime = find_file(root, {"libxpurt.so", "libxpurt.so.2", "libxpurt.so.1"});
  if (found.runtime.empty()) return found;
  found.root = fs::canonical(root);
  found.management = find_file(root, {"libxpuml.so", "libxpuml.so.1"});
  found.collectives = find_file(root, {"libbkcl.so"});
  found.shim = find_file(root, {"liblf_bkcl_shim.so"});
  return found;
}

}  // namespace

std::optional<Installation> find_installation(const Environment& environment, std::string& searched,
                                              const fs::path& system) {
  const auto home = environment("LF_KUNLUN_HOME");
  std::vector<fs::path> roots, without_collectives;
  if (home)
    roots.emplace_back(*home);
  else
    for (const char* root : kUsualRoots) roots.push_back(system / root);
  std::optional<Installation> chosen;
  for (const fs::path& root : roots) {
    Installation found = installation_under(root);
    if (found.runtime.empty()) continue;
    if (!found.collectives.empty()) return found;
    without_collectives.push_back(root);
    if (!chosen) chosen = std::move(found);
  }
  if (chosen)
    chosen->without_collectives = joined(without_collectives);
  else if (home)
    searched = "LF_KUNLUN_HOME names a folder without libxpurt.so: " + *home;
  else
    searched = "no libxpurt.so under " + joined(roots) + "; set LF_KUNLUN_HOME to the folder of the vendor's libraries";
  return chosen;
}

}  // namespace lf::kunlun
