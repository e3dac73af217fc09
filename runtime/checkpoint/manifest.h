// The list of a checkpoint's files, written last: without it there is no checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace lf {

inline constexpr const char* kManifestName = "manifest.json";

struct ManifestFile {
  uint64_t bytes = 0;
  std::string hash;                            // hash_hex of the file
  std::map<std::string, std::string> tensors;  // of each tensor's bytes, to name the broken one
};

struct CheckpointManifest {
  int64_t step = 0;
  std::map<std::string, ManifestFile> files;  // all but the manifest itself
};

// JSON whose last member is a hash over everything above it.
std::string manifest_text(const CheckpointManifest& manifest);
// Throws lf::Error(kBadData) that starts with `place` when a single byte is not as it was written.
CheckpointManifest parse_manifest(const std::string& place, const std::string& text);

}  // namespace lf
