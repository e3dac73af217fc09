#include "plugins/lock.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/error.h"
#include "plugins/refusal.h"
#include "plugins/sha256.h"
#include "plugins/trust.h"

namespace lf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint64_t kMostLockBytes = 4 << 20;

[[noreturn]] void damaged(const fs::path& path, const char* what) {
  refuse("expected {} in {}; write it anew with `lfrun --plugin-dir {} plugins lock`", what, path.string(),
         path.parent_path().string());
}

}  // namespace

std::optional<std::vector<LockedPlugin>> read_lock(const fs::path& folder) {
  const fs::path path = folder / kLockFile;
  if (std::error_code error; fs::symlink_status(path, error).type() == fs::file_type::not_found) return std::nullopt;
  const OpenFile file = [&] {
    try {
      return open_trusted(path);
    } catch (const Refusal& refusal) {
      refuse("{}: {}", path.string(), refusal.what());
    }
  }();
  if (file.size() > kMostLockBytes) damaged(path, "at most 4 MiB");
  std::string text(file.size(), '\0');
  if (pread(file.fd(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) damaged(path, "a whole file");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("plugins") || !json["plugins"].is_array())
    damaged(path, "a JSON object with a list \"plugins\"");
  std::vector<LockedPlugin> lock;
  for (const Json& item : json["plugins"]) {
    LockedPlugin plugin;
    const std::pair<const char*, std::string*> fields[] = {{"file", &plugin.file},
                                                           {"kind", &plugin.kind},
                                                           {"id", &plugin.id},
                                                           {"version", &plugin.version},
                                                           {"sha256", &plugin.sha256}};
    for (const auto& [key, value] : fields) {
      if (!item.is_object() || !item.contains(key) || !item[key].is_string())
        damaged(path, "file, kind, id, version and sha256 of each plugin");
      *value = item[key].get<std::string>();
    }
    lock.push_back(std::move(plugin));
  }
  return lock;
}

void require_locked(const std::vector<LockedPlugin>& lock, const Candidate& candidate) {
  const std::string name = candidate.path.filename().string();
  const auto found = std::find_if(lock.begin(), lock.end(), [&](const LockedPlugin& p) { return p.file == name; });
  if (found == lock.end())
    refuse(
        "expected it in {}, got a file that is not listed there; if you put it here, run `lfrun --plugin-dir {} "
        "plugins lock`",
        (candidate.path.parent_path() / kLockFile).string(), candidate.path.parent_path().string());
  const Manifest& manifest = *candidate.manifest;
  if (found->kind != kind_word(manifest.kind) || found->id != manifest.id || found->version != manifest.version)
    refuse("expected {} {} {} as locked, got {} {} {}; if you replaced it, run `lfrun --plugin-dir {} plugins lock`",
           one_line(found->kind), one_line(found->id), one_line(found->version), kind_word(manifest.kind), manifest.id,
           manifest.version, candidate.path.parent_path().string());
}

void require_locked_sha256(const std::string& got, const fs::path& folder, const std::string& sha256) {
  if (got != sha256)
    refuse("expected sha256 {} as locked, got {}; if you replaced it, run `lfrun --plugin-dir {} plugins lock`",
           one_line(sha256), got, folder.string());
}

void require_locked_bytes(const OpenFile& file, const fs::path& folder, const std::string& sha256) {
  require_locked_sha256(sha256_of(file), folder, sha256);
}

size_t write_lock(const fs::path& folder, const PluginHost& host) {
  PluginHost without_lock = host;
  without_lock.lock = LockUse::kIgnored;
  Json plugins = Json::array();
  std::string refused;
  for (const Candidate& candidate : list_plugins({folder}, without_lock)) {
    if (candidate.refusal) {
      refused += fmt::format("{}{}: {}", refused.empty() ? "" : "\n", candidate.path.string(), *candidate.refusal);
      continue;
    }
    plugins.push_back({{"file", candidate.path.filename().string()},
                       {"kind", kind_word(candidate.manifest->kind)},
                       {"id", candidate.manifest->id},
                       {"version", candidate.manifest->version},
                       {"sha256", sha256_of_file(candidate.path)}});
  }
  if (!refused.empty()) throw Error(Exit::kConfig, refused);
  const Json json = {{"plugins", plugins}};
  const fs::path path = folder / kLockFile, part = folder / (std::string(kLockFile) + ".part");
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << json.dump(2) << "\n";
    out.flush();
    if (!out) fail(Exit::kCannotCreate, "{}: cannot be written: {}", part.string(), std::strerror(errno));
  }
  fs::permissions(part,
                  fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read);
  if (std::rename(part.c_str(), path.c_str()) != 0)
    fail(Exit::kCannotCreate, "{}: cannot be replaced: {}", path.string(), std::strerror(errno));
  return plugins.size();
}

}  // namespace lf
