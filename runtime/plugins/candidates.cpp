#include <algorithm>

#include "core/error.h"
#include "plugins/elf_note.h"
#include "plugins/linkage.h"
#include "plugins/lock.h"
#include "plugins/manifest.h"
#include "plugins/parts.h"
#include "plugins/plugins.h"
#include "plugins/processor.h"
#include "plugins/refusal.h"
#include "plugins/trust.h"

namespace lf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".lfplugin.so";

// What loading would do must not depend on where lfrun runs, nor contradict the manifest: a plugin that brings LibTorch
// in unsaid would get the host's, whatever build it was compiled for.
void require_sound_linkage(const Linkage& linkage, const Manifest& manifest) {
  require_fixed_places(linkage);
  if (manifest.torch == "none" && needs_torch(linkage))
    refuse("expected no LibTorch, as its manifest says \"none\", got a need for it; state the build in the manifest");
}

void heed_lock(Candidate& candidate, LockUse use) {
  if (use == LockUse::kIgnored) return;
  const fs::path folder = candidate.path.parent_path();
  const auto lock = read_lock(folder);
  if (!lock && use == LockUse::kRequired)
    refuse("expected {}, since --locked is given, got none; write it with `lfrun --plugin-dir {} plugins lock`",
           (folder / kLockFile).string(), folder.string());
  if (lock) hold_to_lock(*lock, candidate);
}

// Told once of a folder, instead of by each plugin in it.
void require_trusted(const fs::path& dir) {
  try {
    require_trusted_folders(fs::canonical(dir));
  } catch (const Refusal& refusal) {
    fail(Exit::kConfig, "{}: no plugin there is loaded: {}", dir.string(), refusal.what());
  }
}

}  // namespace

Candidate judge_plugin(const fs::path& file, const PluginHost& host) {
  Candidate candidate;
  candidate.path = file;
  try {
    // Links above the file are followed here, once; the file itself must not be one.
    candidate.path = fs::canonical(fs::absolute(file).parent_path()) / file.filename();
    const OpenFile opened = open_trusted(candidate.path);
    candidate.device = opened.status().st_dev;
    candidate.inode = opened.status().st_ino;
    const ElfFile elf(opened);
    const int level = host.x86_level > 0 ? host.x86_level : x86_level_here();
    require_processor(elf, level);
    candidate.manifest = parse_manifest(read_plugin_note(elf));
    candidate.manifest->compiler = read_compiler_note(elf);
    require_compatible(*candidate.manifest, host);
    require_sound_linkage(read_linkage(elf), *candidate.manifest);
    candidate.parts = judge_parts(candidate.path.parent_path(), candidate.manifest->parts, level);
    heed_lock(candidate, host.lock);
  } catch (const Refusal& refusal) {
    candidate.refusal = refusal.what();
  } catch (const fs::filesystem_error& error) {
    candidate.refusal = "cannot be opened: " + error.code().message();
  }
  return candidate;
}

std::vector<Candidate> list_plugins(const std::vector<fs::path>& dirs, const PluginHost& host) {
  std::vector<Candidate> found;
  for (const fs::path& dir : dirs) {
    std::error_code error;
    std::vector<fs::path> files;
    for (fs::directory_iterator entry(dir, error), end; !error && entry != end; entry.increment(error))
      if (entry->path().filename().string().ends_with(kSuffix)) files.push_back(entry->path());
    if (error)
      fail(Exit::kConfig, "{}: expected a folder of plugins, got: {}; check --plugin-dir", dir.string(),
           error.message());
    std::sort(files.begin(), files.end());
    if (!files.empty()) require_trusted(dir);
    for (const fs::path& file : files) {
      Candidate candidate = judge_plugin(file, host);
      const bool known =
          std::any_of(found.begin(), found.end(), [&](const Candidate& c) { return c.path == candidate.path; });
      if (!known) found.push_back(std::move(candidate));
    }
  }
  return found;
}

}  // namespace lf
