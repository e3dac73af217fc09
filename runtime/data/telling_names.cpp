#include "data/telling_names.h"

#include <map>
#include <set>

#include "data/path_text.h"

namespace lf {
namespace {

std::string last_parts(const std::filesystem::path& path, size_t count) {
  const std::vector<std::filesystem::path> parts(path.begin(), path.end());
  std::filesystem::path name;
  for (size_t i = parts.size() > count ? parts.size() - count : 0; i < parts.size(); ++i) name /= parts[i];
  return name.string();
}

std::filesystem::path without_last_slash(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

std::vector<std::string> telling_names(const std::vector<std::filesystem::path>& paths) {
  std::set<std::filesystem::path> unclear;
  for (const std::filesystem::path& path : paths) unclear.insert(without_last_slash(path));
  std::map<std::filesystem::path, std::string> name_of;
  // One part more for those that still share a name: absolute paths that differ have all of them at last.
  for (size_t parts = 1; !unclear.empty(); ++parts) {
    std::map<std::string, std::vector<std::filesystem::path>> by_name;
    for (const std::filesystem::path& path : unclear) by_name[last_parts(path, parts)].push_back(path);
    unclear.clear();
    for (const auto& [name, sharing] : by_name) {
      if (sharing.size() == 1)
        name_of[sharing[0]] = name;
      else
        unclear.insert(sharing.begin(), sharing.end());
    }
  }
  std::vector<std::string> names;
  for (const std::filesystem::path& path : paths) names.push_back(readable(name_of.at(without_last_slash(path))));
  return names;
}

}  // namespace lf
