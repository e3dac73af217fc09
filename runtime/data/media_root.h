// Where the media that samples name are looked for.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lf {

// Turns what a sample calls a picture or a video into the path that its reader is given.
class MediaPlaces {
 public:
  virtual ~MediaPlaces() = default;
  // Throws FieldError, beginning with `field`, for a path that the data set must not name.
  virtual std::string resolve(std::string path, std::string_view field) const = 0;
};

// Files below one folder. A data set may come from anywhere, so neither its paths nor symbolic links below the folder
// may lead out of it; the folder itself may be, or stand behind, a link. Immutable; any thread.
class MediaRoot final : public MediaPlaces {
 public:
  explicit MediaRoot(const std::filesystem::path& folder);  // empty: the working directory

  // Relative, absolute or file:// -> absolute and normal, as path_text(); links not replaced: messages show what the
  // data set says. A file that is not there passes; whoever opens it says so.
  std::string resolve(std::string path, std::string_view field) const override;

 private:
  std::filesystem::path folder_, real_;  // as given, absolute; and with links replaced
};

// What every kind of place asks of a path: a name of a local file, not empty, without NUL. Takes file:// away.
std::string local_path(std::string path, std::string_view field);

}  // namespace lf
