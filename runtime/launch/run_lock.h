// One run at a time in a run directory.
#pragma once

#include <filesystem>

namespace lf {

// Taken before anything else is made there: by lfrun before it starts workers, which then hold it with it; by rank 0
// where workers were started one by one. Holds <run directory>/lock from construction to destruction; the folder is
// made if it is missing. Throws lf::Error(kCannotCreate) that names the process and host holding it, or (also
// kPermission) what cannot be made. The lock belongs to the open file: children made by fork hold it too, until the
// last of them ends; programs started by exec do not.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& run_directory);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  int descriptor_ = -1;
};

}  // namespace lf
