#include "data/telling_names.h"

#include <algorithm>
#include <iterator>

namespace lf {
namespace {

std::string last_parts(const std::filesystem::path& path, size_t count) {
  const std::vector<std::filesystem::path> parts(path.begin(), path.end());
  std::filesystem::path name;
  for (size_t i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i) name /= parts[i];
  return name.string();
}

}  // namespace

std::vector<std::string> telling_names(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> whole;
  for (const std::filesystem::path& path : paths) whole.push_back(path.has_filename() ? path : path.parent_path());
  std::vector<std::string> names;
  for (const std::filesystem::path& path : whole) {
    const auto shared = [&](size_t count) {
      return std::any_of(whole.begin(), whole.end(), [&](const std::filesystem::path& other) {
        return other != path && last_parts(other, count) == last_parts(path, count);
      });
    };
    size_t count = 1;
    const auto most = static_cast<size_t>(std::distance(path.begin(), path.end()));
    while (count < most && shared(count)) ++count;
    names.push_back(last_parts(path, count));
  }
  return names;
}

}  // namespace lf
