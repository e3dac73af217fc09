// A balancer plugin in C++: every sample stays where it arrived. ../c/balancer.c does the same in C.
#include "lf/plugin_api/balancer.h"

#include <vector>

#include "lf/plugin_sdk/entry.hpp"
#include "lf/plugin_sdk/plugin.hpp"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"balancer","id":"template_cpp","version":"1","interfaces":["lf.balancer/1"],"torch":"none"})");

namespace {

using lf::sdk::entry;

void create(const lf_host*, lf_str options_json, lf_balancer* out) {
  if (const auto options = lf::sdk::view(options_json); !options.empty() && options != "{}")
    throw lf::sdk::Failure(LF_E_INVALID, "balance.options: policy template_cpp takes none; remove the table");
  *out = nullptr;  // this policy keeps nothing
}

void destroy(lf_balancer) {}

// Pure: the same input gives the same plan on every rank. One assignment per atom, part by part.
void plan(lf_balancer, const lf_balance_input* input, lf_assignment* out, lf_balance_report*) {
  for (uint32_t p = 0; p < input->n_parts; ++p) {
    const lf_balance_part& part = input->parts[p];
    // How many atoms each (replica, micro-batch) has so far.
    std::vector<int32_t> count(static_cast<size_t>(part.replicas) * static_cast<size_t>(part.micro_batches), 0);
    for (uint64_t i = 0; i < part.n_atoms; ++i, ++out) {
      const int32_t replica = part.arrival_replica[i], micro_batch = part.arrival_micro_batch[i];
      *out = {replica, micro_batch, count[static_cast<size_t>(replica * part.micro_batches + micro_batch)]++, 0};
    }
  }
}

const lf_balancer_api kTable = {
    {sizeof(lf_balancer_api), LF_ABI_MAJOR, LF_ABI_MINOR}, entry<create>, entry<destroy>, entry<plan>};
const lf::sdk::Interface kInterfaces[] = {{LF_BALANCER_INTERFACE, &kTable}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_BALANCER, "template_cpp", "1");

}  // namespace

extern "C" LF_EXPORT const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
