#include "plugins/parts.h"

#include <algorithm>

#include <fnmatch.h>

#include "plugins/elf_file.h"
#include "plugins/linkage.h"
#include "plugins/lock.h"
#include "plugins/processor.h"
#include "plugins/refusal.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMeta = "*?[]\\";

// What is wrong with a part refuses its plugin.
template <typename Body>
void of_part(const fs::path& path, const Body& body) {
  try {
    body();
  } catch (const Refusal& refusal) {
    refuse("its part {}: {}", path.string(), refusal.what());
  }
}

PluginPart judged(const std::string& name, const fs::path& path, int x86_level) {
  PluginPart part{name, path, "", 0, 0};
  of_part(path, [&] {
    const OpenFile file = open_trusted(path);
    part.device = file.status().st_dev;
    part.inode = file.status().st_ino;
    const ElfFile elf(file);
    require_processor(elf, x86_level);
    require_fixed_places(read_linkage(elf));
  });
  return part;
}

void require_file(const OpenFile& file, dev_t device, ino_t inode, const fs::path& folder, const std::string& sha256) {
  if (file.status().st_dev != device || file.status().st_ino != inode)
    refuse("was replaced while it was being loaded; start again");
  if (!sha256.empty()) require_locked_bytes(file, folder, sha256);
}

}  // namespace

bool is_part_pattern(std::string_view text) {
  const size_t slash = text.rfind('/');
  const std::string_view name = slash == text.npos ? text : text.substr(slash + 1);
  return !text.starts_with('/') && !name.empty() && name != "." && name != ".." &&
         text.find_first_of(kMeta) >= text.size() - name.size();
}

std::vector<PluginPart> judge_parts(const fs::path& folder, const std::vector<std::string>& patterns, int x86_level) {
  std::vector<PluginPart> parts;
  for (const std::string& pattern : patterns) {
    const fs::path below = fs::path(pattern).parent_path(), name = fs::path(pattern).filename();
    std::error_code error;
    const fs::path place = fs::canonical(folder / below, error);  // none there: no part either
    std::vector<std::string> found;
    for (fs::directory_iterator entry(place, error), end; !error && entry != end; entry.increment(error))
      if (const std::string file = entry->path().filename(); fnmatch(name.c_str(), file.c_str(), FNM_PERIOD) == 0)
        found.push_back(file);
    std::sort(found.begin(), found.end());
    for (const std::string& file : found) parts.push_back(judged((below / file).string(), place / file, x86_level));
  }
  return parts;
}

void require_as_judged(const Candidate& candidate, const OpenFile& file) {
  require_file(file, candidate.device, candidate.inode, candidate.path.parent_path(), candidate.locked_sha256);
}

void require_parts_as_judged(const Candidate& candidate) {
  for (const PluginPart& part : candidate.parts)
    of_part(part.path, [&] {
      require_file(open_trusted(part.path), part.device, part.inode, candidate.path.parent_path(), part.locked_sha256);
    });
}

}  // namespace lf
