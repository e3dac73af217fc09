#include "lf/plugin_sdk/plugin.hpp"

#include "minimax/policy.h"
#include "planning/table.h"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"balancer","id":"minimax","version":"0.1.0","interfaces":["lf.balancer/1"],"torch":"none"})");

namespace {

const lf_balancer_api kTable = lf::planning::table<lf::planning::Minimax>();
const lf::sdk::Interface kInterfaces[] = {{LF_BALANCER_INTERFACE, &kTable}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_BALANCER, "minimax", "0.1.0");

}  // namespace

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
