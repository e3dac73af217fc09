#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "checkpoint/hash.h"
#include "core/error.h"

namespace lf {
namespace {

constexpr int kManifestFormat = 1;
constexpr std::string_view kBefore = ",\n \"xxh3_128_of_all_above\": \"", kAfter = "\"\n}\n";
constexpr size_t kHashDigits = 32;

}  // namespace

std::string manifest_text(const CheckpointManifest& manifest) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [name, file] : manifest.files) {
    nlohmann::json& entry = files[name];
    entry["bytes"] = file.bytes;
    entry["xxh3_128"] = file.hash;
    if (!file.tensors.empty()) entry["tensors"] = file.tensors;
  }
  const nlohmann::json tree = {{"files", std::move(files)}, {"format", kManifestFormat}, {"step", manifest.step}};
  std::string text = tree.dump(1);
  text.resize(text.size() - 2);  // "\n}"
  const std::string hash = hash_hex(text);
  return text.append(kBefore).append(hash).append(kAfter);
}

CheckpointManifest parse_manifest(const std::string& place, const std::string& text) {
  const size_t tail = kBefore.size() + kHashDigits + kAfter.size();
  const size_t body = text.size() < tail ? 0 : text.size() - tail;
  const std::string_view end = std::string_view(text).substr(body);
  if (body == 0 || !end.starts_with(kBefore) || !end.ends_with(kAfter))
    fail(Exit::kBadData, "{}: is cut short or altered", place);
  if (end.substr(kBefore.size(), kHashDigits) != hash_hex(std::string_view(text).substr(0, body)))
    fail(Exit::kBadData, "{}: its checksum does not match its content: it was altered", place);
  CheckpointManifest manifest;
  try {
    const nlohmann::json tree = nlohmann::json::parse(text);
    if (const int format = tree.at("format").get<int>(); format != kManifestFormat)
      fail(Exit::kBadData, "{}: expected format {}, got {}; resume with the lfrun that wrote it", place,
           kManifestFormat, format);
    tree.at("step").get_to(manifest.step);
    for (const auto& [name, entry] : tree.at("files").items()) {
      // The checksum tells damage, not intent: a name must not lead to files elsewhere.
      if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\0", 2)) != name.npos)
        fail(Exit::kBadData, "{}: a file name that is no name of a file in the checkpoint", place);
      ManifestFile& file = manifest.files[name];
      entry.at("bytes").get_to(file.bytes);
      entry.at("xxh3_128").get_to(file.hash);
      if (entry.contains("tensors")) entry.at("tensors").get_to(file.tensors);
    }
  } catch (const nlohmann::json::exception& error) {
    fail(Exit::kBadData, "{}: {}", place, error.what());
  }
  return manifest;
}

}  // namespace lf
