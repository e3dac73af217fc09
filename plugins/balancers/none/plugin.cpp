// Policy "none": every atom stays where it arrived.
#include "lf/plugin_sdk/plugin.hpp"

#include <string_view>

#include "planning/options.h"
#include "planning/places.h"
#include "planning/table.h"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"balancer","id":"none","version":"0.1.0","interfaces":["lf.balancer/1"],"torch":"none"})");

namespace {

class None {
 public:
  explicit None(std::string_view options) { lf::planning::read_settings(options, {}); }

  void plan(const lf_balance_input& input, lf_assignment* out, lf_balance_report&) const {
    lf_assignment* next = out;
    for (uint32_t p = 0; p < input.n_parts; ++p)
      for (uint64_t i = 0; i < input.parts[p].n_atoms; ++i)
        *next++ = {input.parts[p].arrival_replica[i], input.parts[p].arrival_micro_batch[i], 0, 0};
    lf::planning::number_atoms(input, out);
  }
};

const lf_balancer_api kTable = lf::planning::table<None>();
const lf::sdk::Interface kInterfaces[] = {{LF_BALANCER_INTERFACE, &kTable}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_BALANCER, "none", "0.1.0");

}  // namespace

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
