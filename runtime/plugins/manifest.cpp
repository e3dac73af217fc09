#include "plugins/manifest.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_api/balancer.h"
#include "lf/plugin_api/device.h"
#include "lf/plugin_api/model.h"
#include "plugins/parts.h"
#include "plugins/refusal.h"

namespace lf {
namespace {

using Json = nlohmann::json;

constexpr PluginKind kKinds[] = {PluginKind::kDevice, PluginKind::kModel, PluginKind::kBalancer};

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string())
    refuse("expected text \"{}\" in the manifest, got {}", key, found == json.end() ? "nothing" : found->type_name());
  return one_line(found->get_ref<const std::string&>());
}

std::vector<std::string> texts_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  std::vector<std::string> texts;
  if (found->is_array())
    for (const Json& item : *found)
      if (item.is_string()) texts.push_back(one_line(item.get_ref<const std::string&>()));
  if (!found->is_array() || texts.size() != found->size())
    refuse("expected a list of texts as \"{}\" in the manifest, got {}", key, found->type_name());
  return texts;
}

bool is_id(std::string_view id) {
  return id.size() >= 2 && id.size() <= 64 &&
         id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string_view::npos;
}

struct AbiVersion {
  unsigned major_number = 0, minor_number = 0;
};

AbiVersion parse_abi(std::string_view text) {
  AbiVersion version;
  const char* const end = text.data() + text.size();
  const auto [dot, wrong_major] = std::from_chars(text.data(), end, version.major_number);
  if (wrong_major == std::errc{} && dot != end && *dot == '.') {
    const auto [last, wrong_minor] = std::from_chars(dot + 1, end, version.minor_number);
    if (wrong_minor == std::errc{} && last == end) return version;
  }
  refuse("expected \"abi\" as \"major.minor\" in the manifest, got \"{}\"", text);
}

}  // namespace

std::string_view kind_word(PluginKind kind) {
  switch (kind) {
    case PluginKind::kDevice:
      return "device";
    case PluginKind::kModel:
      return "model";
    case PluginKind::kBalancer:
      return "balancer";
  }
  return "unknown";
}

std::string_view interface_of(PluginKind kind) {
  switch (kind) {
    case PluginKind::kDevice:
      return LF_DEVICE_INTERFACE;
    case PluginKind::kModel:
      return LF_MODEL_INTERFACE;
    case PluginKind::kBalancer:
      return LF_BALANCER_INTERFACE;
  }
  return "";
}

Manifest parse_manifest(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse("expected a manifest that is a JSON object, got \"{}\"", one_line(text.substr(0, 60)));
  Manifest manifest;
  manifest.abi = text_of(json, "abi");
  const std::string kind = text_of(json, "kind");
  const auto found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](PluginKind k) { return kind_word(k) == kind; });
  if (found == std::end(kKinds))
    refuse("expected \"kind\" device, model or balancer in the manifest, got \"{}\"", kind);
  manifest.kind = *found;
  manifest.id = text_of(json, "id");
  if (!is_id(manifest.id))
    refuse("expected \"id\" of 2 to 64 characters a-z 0-9 . _ - in the manifest, got \"{}\"", manifest.id);
  manifest.version = text_of(json, "version");
  manifest.interfaces = texts_of(json, "interfaces");
  manifest.torch = text_of(json, "torch");
  manifest.required_extensions = texts_of(json, "requires");
  manifest.parts = texts_of(json, "parts");
  for (const std::string& part : manifest.parts)
    if (!is_part_pattern(part))
      refuse(
          "expected \"parts\" that are paths from the plugin's folder, with a pattern in the last component alone, got "
          "\"{}\" in the manifest",
          part);
  return manifest;
}

void require_compatible(const Manifest& manifest, const PluginHost& host) {
  const auto [major_number, minor_number] = parse_abi(manifest.abi);
  // While the major is 0 nothing is promised between minors; afterwards a host serves all earlier minors.
  const bool fits =
      major_number == LF_ABI_MAJOR && (LF_ABI_MAJOR == 0 ? minor_number == LF_ABI_MINOR : minor_number <= LF_ABI_MINOR);
  if (!fits)
    refuse("expected plugin ABI {}.{}, got {}; rebuild it against this lfrun's plugin_api", LF_ABI_MAJOR, LF_ABI_MINOR,
           manifest.abi);
  if (manifest.torch != "none" && manifest.torch != host.torch_build)
    refuse("expected a plugin for LibTorch {}, got one for {}; rebuild it against this lfrun's LibTorch",
           host.torch_build, manifest.torch);
  // Where the manifest stands in a C file the note says nothing of the C++ beside it.
  if (manifest.torch != "none" && !manifest.compiler.empty() && manifest.compiler != "c" &&
      manifest.compiler != host.compiler)
    refuse("expected C++ compiled as {}, as LibTorch is, got {}; rebuild it so, or without LibTorch", host.compiler,
           manifest.compiler);
  const std::string_view needed = interface_of(manifest.kind);
  if (std::find(manifest.interfaces.begin(), manifest.interfaces.end(), needed) == manifest.interfaces.end())
    refuse("expected a {} plugin to offer {}, got [{}]", kind_word(manifest.kind), needed,
           fmt::join(manifest.interfaces, ", "));
  for (const std::string& extension : manifest.required_extensions)
    if (std::find(host.extensions.begin(), host.extensions.end(), extension) == host.extensions.end())
      refuse("requires {}, which this lfrun does not offer (it has {}); use a newer lfrun", extension,
             fmt::join(host.extensions, ", "));
}

}  // namespace lf
