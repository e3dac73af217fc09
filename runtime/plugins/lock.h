// plugins.lock: which plugins a folder is meant to hold. Written by `lfrun plugins lock`; where it is there, a plugin
// that is not in it, or is another, is refused.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plugins/plugins.h"
#include "plugins/trust.h"

namespace lf {

struct LockedPart {
  std::string file, sha256;  // file: its path from the folder
};

struct LockedPlugin {
  std::string file, kind, id, version, sha256;  // file: its name in the folder
  std::vector<LockedPart> parts;
};

inline constexpr const char* kLockFile = "plugins.lock";

// The lock of a folder; none where there is no such file. Throws Refusal where it is damaged, or others may write it.
std::optional<std::vector<LockedPlugin>> read_lock(const std::filesystem::path& folder);

// Notes what the bytes of the candidate and of its parts must be, which are require_locked_bytes' to judge. Throws
// Refusal unless the lock holds the plugin with this manifest, and each of its parts.
void hold_to_lock(const std::vector<LockedPlugin>& lock, Candidate& candidate);

// Throws Refusal where `got`, the sha256 of a file's bytes, is not the locked one.
void require_locked_sha256(const std::string& got, const std::filesystem::path& folder, const std::string& sha256);

// The same; reads the whole file.
void require_locked_bytes(const OpenFile& file, const std::filesystem::path& folder, const std::string& sha256);

// Writes the folder's lock for its acceptable plugins, replacing it in one move; the number of plugins in it. Throws
// lf::Error: kConfig where a plugin is refused, kCannotCreate where the file cannot be written.
size_t write_lock(const std::filesystem::path& folder, const PluginHost& host);

}  // namespace lf
