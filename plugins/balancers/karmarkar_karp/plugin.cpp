// Policy "karmarkar_karp": number partitioning by differencing, as a baseline. It knows no limits: samples that do not
// fit where it wants them are placed by the repairs that all policies share.
#include "lf/plugin_sdk/plugin.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "karmarkar_karp/differencing.h"
#include "planning/feasible.h"
#include "planning/options.h"
#include "planning/order.h"
#include "planning/places.h"
#include "planning/repair.h"
#include "planning/table.h"
#include "planning/untied.h"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"balancer","id":"karmarkar_karp","version":"0.1.0","interfaces":["lf.balancer/1"],"torch":"none"})");

namespace {

using namespace lf::planning;

class KarmarkarKarp {
 public:
  explicit KarmarkarKarp(std::string_view options) { read_settings(options, {}); }

  void plan(const lf_balance_input& input, lf_assignment* out, lf_balance_report&) const {
    const Problem problem = make_problem(input);
    // Groups are replicas, cut into micro-batches by size; or, in lockstep, micro-batches themselves.
    const int32_t width = problem.objective == LF_OBJECTIVE_LOCKSTEP ? 1 : problem.micro_batches;
    const std::vector<int32_t> group = differenced(problem.cost, problem.slots / width);
    std::vector<int64_t> size(problem.n_samples);
    for (uint32_t i = 0; i < problem.n_samples; ++i) size[i] = problem.amounts(i)[0];

    Packing packing(problem);
    std::vector<uint32_t> left;
    for (const uint32_t i : heaviest_first(size)) {
      const int32_t first = group[i] * width;
      int32_t slot = first;
      for (int32_t other = first + 1; other < first + width; ++other)
        if (packing.room(other) > packing.room(slot)) slot = other;
      if (packing.fits(i, slot))
        packing.put(i, slot);
      else
        left.push_back(i);
    }
    if (!repair(packing, std::move(left))) packing = feasible_packing(problem);

    place_samples(input, packing.slots(), out);
    place_untied(input, packing.slots(), out);
    number_atoms(input, out);
  }
};

const lf_balancer_api kTable = table<KarmarkarKarp>();
const lf::sdk::Interface kInterfaces[] = {{LF_BALANCER_INTERFACE, &kTable}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_BALANCER, "karmarkar_karp", "0.1.0");

}  // namespace

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
