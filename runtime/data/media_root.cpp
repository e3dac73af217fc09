#include "data/media_root.h"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include <fmt/format.h>
#include <simdjson.h>

#include "data/conversation.h"
#include "data/path_text.h"

namespace lf {
namespace {

std::string shown(const std::string& path) { return path.size() > 200 ? path.substr(0, 200) + "..." : path; }

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

std::filesystem::path without_last_slash(std::filesystem::path path) {
  return !path.has_filename() && path != path.root_path() ? path.parent_path() : path;
}

}  // namespace

MediaRoot::MediaRoot(const std::filesystem::path& folder)
    : folder_(without_last_slash((std::filesystem::current_path() / folder).lexically_normal())),
      real_(without_last_slash(std::filesystem::weakly_canonical(folder_))) {}

std::string MediaRoot::resolve(std::string path, std::string_view field) const {
  path = local_path(std::move(path), field);
  std::string full = (folder_ / path).lexically_normal().string();
  if (!is_below(full, folder_))
    throw FieldError(std::string(field), fmt::format("'{}' lies outside {}; set data.media_root to a folder that holds "
                                                     "all media",
                                                     shown(path), readable(folder_.string())));
  char real[PATH_MAX];
  if (::realpath(full.c_str(), real) != nullptr && !is_below(real, real_))
    throw FieldError(std::string(field),
                     fmt::format("'{}' leads outside {} by a symbolic link; put the file itself there, or set "
                                 "data.media_root to a folder that holds all media",
                                 shown(path), readable(folder_.string())));
  return path_text(std::move(full));
}

std::string local_path(std::string path, std::string_view field) {
  path = path_of(std::move(path));
  if (path.empty()) throw FieldError(std::string(field), "empty path");
  // Of JSON it is UTF-8; %xx may have made it otherwise.
  if (!simdjson::validate_utf8(path)) throw FieldError(std::string(field), "a path that is not valid UTF-8");
  if (path.find('\0') != path.npos) throw FieldError(std::string(field), "a NUL in the path");
  if (path.starts_with("data:"))
    throw FieldError(std::string(field), "data inside the line is not supported; store it as a file");
  if (const size_t scheme = path.find("://"); scheme != path.npos && scheme < 12)
    throw FieldError(std::string(field), fmt::format("'{}' is not a local file; download it first", shown(path)));
  return path;
}

}  // namespace lf
