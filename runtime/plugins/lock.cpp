#include "plugins/lock.h"

#include <algorithm>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/error.h"
#include "core/whole_file.h"
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
    const auto text = [&](const Json& of, const char* key) {
      if (!of.is_object() || !of.contains(key) || !of[key].is_string())
        damaged(path, "file, kind, id, version and sha256 of each plugin, and file and sha256 of each of its parts");
      return of[key].get<std::string>();
    };
    LockedPlugin plugin{text(item, "file"),    text(item, "kind"),   text(item, "id"),
                        text(item, "version"), text(item, "sha256"), {}};
    if (item.contains("parts") && !item["parts"].is_array()) damaged(path, "a list \"parts\" of each plugin with some");
    if (item.contains("parts"))
      for (const Json& part : item["parts"]) plugin.parts.push_back({text(part, "file"), text(part, "sha256")});
    lock.push_back(std::move(plugin));
  }
  return lock;
}

void hold_to_lock(const std::vector<LockedPlugin>& lock, Candidate& candidate) {
  const std::string name = candidate.path.filename().string(), folder = candidate.path.parent_path().string();
  const auto found = std::find_if(lock.begin(), lock.end(), [&](const LockedPlugin& p) { return p.file == name; });
  if (found == lock.end())
    refuse(
        "expected it in {}, got a file that is not listed there; if you put it here, run `lfrun --plugin-dir {} "
        "plugins lock`",
        (candidate.path.parent_path() / kLockFile).string(), folder);
  const Manifest& manifest = *candidate.manifest;
  if (found->kind != kind_word(manifest.kind) || found->id != manifest.id || found->version != manifest.version)
    refuse("expected {} {} {} as locked, got {} {} {}; if you replaced it, run `lfrun --plugin-dir {} plugins lock`",
           one_line(found->kind), one_line(found->id), one_line(found->version), kind_word(manifest.kind), manifest.id,
           manifest.version, folder);
  candidate.locked_sha256 = found->sha256;
  for (PluginPart& part : candidate.parts) {
    const auto locked = std::find_if(found->parts.begin(), found->parts.end(),
                                     [&](const LockedPart& p) { return p.file == part.name; });
    if (locked == found->parts.end())
      refuse(
          "expected its part {} in {}, got a file that is not listed there; if you put it here, run `lfrun "
          "--plugin-dir {} plugins lock`",
          part.path.string(), (candidate.path.parent_path() / kLockFile).string(), folder);
    part.locked_sha256 = locked->sha256;
  }
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
    for (const PluginPart& part : candidate.parts)
      plugins.back()["parts"].push_back({{"file", part.name}, {"sha256", sha256_of_file(part.path)}});
  }
  if (!refused.empty()) throw Error(Exit::kConfig, refused);
  const Json json = {{"plugins", plugins}};
  const fs::path path = folder / kLockFile;
  if (const std::error_code error = replace_file(path, json.dump(2) + "\n"))
    fail(Exit::kCannotCreate, "{}: cannot be written: {}", path.string(), error.message());
  fs::permissions(path,
                  fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read);
  return plugins.size();
}

}  // namespace lf
