// From the note's JSON to a Manifest, and whether this host can take the plugin.
#pragma once

#include <string_view>

#include "plugins/plugins.h"

namespace lf {

// Throws Refusal where the JSON is not a manifest.
Manifest parse_manifest(std::string_view json);

// Throws Refusal where the plugin is for another ABI, another LibTorch build or another host.
void require_compatible(const Manifest& manifest, const PluginHost& host);

std::string_view interface_of(PluginKind kind);  // "lf.model/1": what a plugin of that kind must offer

}  // namespace lf
