// The descriptor of a plugin written in C++, from constants and one table per interface.
//
//   LF_PLUGIN_MANIFEST(R"({"abi":"0.1","kind":"balancer","id":"none",...})");
//   namespace { const lf::sdk::Interface kInterfaces[] = {{LF_BALANCER_INTERFACE, &table}};
//               const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_BALANCER, "none", "0.1.0"); }
//   extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
#pragma once

#include <string_view>

#include "lf/plugin_api/entry.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::sdk {

struct Interface {
  std::string_view id;
  const void* table;
};

template <const auto& kInterfaces>
lf_plugin make_plugin(int32_t kind, std::string_view id, std::string_view version,
                      int32_t (*start)(const lf_host*, lf_err*) = nullptr,
                      int32_t (*stop)(lf_err*) = nullptr) noexcept {
  lf_plugin plugin = with_header<lf_plugin>();
  plugin.magic = LF_PLUGIN_MAGIC;
  plugin.kind = kind;
  plugin.id = str(id);
  plugin.version = str(version);
  plugin.get_interface = [](lf_str wanted) -> const void* {
    for (const Interface& offered : kInterfaces)
      if (offered.id == view(wanted)) return offered.table;
    return nullptr;
  };
  plugin.start = start != nullptr ? start : [](const lf_host*, lf_err*) -> int32_t { return LF_OK; };
  plugin.stop = stop != nullptr ? stop : [](lf_err*) -> int32_t { return LF_OK; };
  return plugin;
}

}  // namespace lf::sdk
