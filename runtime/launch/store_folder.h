// The folder in $TMPDIR that holds the socket of a launcher, and those that killed launchers left there.
#pragma once

#include <filesystem>

namespace lf {

// A new folder `lfrun-XXXXXX` that only this user may enter. Its file `owner` is locked (flock) while this process or a
// child that did not let go lives, so another launcher can tell that it is in use.
class StoreFolder {
 public:
  // Throws lf::Error(kCannotCreate).
  explicit StoreFolder(const std::filesystem::path& temporary);
  ~StoreFolder();  // removes the folder
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void let_go();  // in a forked child: the folder stays the parent's

 private:
  std::filesystem::path path_;
  int owner_ = -1;
};

// Removes the folders of this user whose launcher is gone: those that have an `owner` which nobody locks. One that is
// just being made has none yet. Follows no link, and says nothing of what it cannot remove.
void remove_left_store_folders(const std::filesystem::path& temporary) noexcept;

}  // namespace lf
