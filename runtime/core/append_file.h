// A file that only grows, by whole records: a record that did not fit on the disk leaves no half behind.
#pragma once

#include <filesystem>
#include <string_view>

namespace lf {

class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);  // created where absent; throws lf::Error(kCannotCreate)
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view record);  // throws lf::Error(kIo); the file then ends before the record
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace lf
