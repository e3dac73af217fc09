#include "launch/store_folder.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"

namespace lf {
namespace {

constexpr std::string_view kFolderPrefix = "lfrun-";
constexpr size_t kFolderNameBytes = kFolderPrefix.size() + 6;  // of mkdtemp
constexpr const char* kOwnerFile = "owner";
constexpr const char* kOwnerInTheMaking = "owner.part";

std::vector<std::string> names_of_store_folders(const std::filesystem::path& temporary) {
  std::vector<std::string> names;
  DIR* folder = opendir(temporary.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kFolderPrefix) && name.size() == kFolderNameBytes) names.emplace_back(name);
  }
  closedir(folder);
  return names;
}

void remove_if_left(int temporary, const std::string& name) {
  const Descriptor folder(openat(temporary, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (folder.get() < 0 || fstat(folder.get(), &status) != 0 || status.st_uid != geteuid()) return;
  const Descriptor owner(openat(folder.get(), kOwnerFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (owner.get() < 0 || flock(owner.get(), LOCK_EX | LOCK_NB) != 0) return;
  for (const char* file : {"store", kOwnerFile}) unlinkat(folder.get(), file, 0);
  unlinkat(temporary, name.c_str(), AT_REMOVEDIR);  // not where it holds anything else
}

}  // namespace

StoreFolder::StoreFolder(const std::filesystem::path& temporary) {
  std::string name = (temporary / (std::string(kFolderPrefix) + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr)
    fail(Exit::kCannotCreate, "{}: no folder for the workers' socket: {}; set TMPDIR to one that can be written", name,
         std::strerror(errno));
  path_ = name;
  // Locked before it gets its name, so that it is never seen unlocked while we live.
  const std::filesystem::path made = path_ / kOwnerInTheMaking;
  owner_ = open(made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (owner_ >= 0 && flock(owner_, LOCK_EX | LOCK_NB) == 0 && rename(made.c_str(), (path_ / kOwnerFile).c_str()) == 0)
    return;
  const std::string reason = std::strerror(errno);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (owner_ >= 0) close(owner_);
  fail(Exit::kCannotCreate, "{}: cannot be made: {}; set TMPDIR to another folder", made.string(), reason);
}

StoreFolder::~StoreFolder() {
  if (owner_ < 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  close(owner_);
}

void StoreFolder::let_go() {
  if (owner_ >= 0) close(std::exchange(owner_, -1));
}

void remove_left_store_folders(const std::filesystem::path& temporary) noexcept {
  try {
    const Descriptor folder(open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0) return;
    for (const std::string& name : names_of_store_folders(temporary)) remove_if_left(folder.get(), name);
  } catch (const std::exception&) {  // out of memory: the next launcher removes them
  }
}

}  // namespace lf
