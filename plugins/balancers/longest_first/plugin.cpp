// Policy "longest_first": the classic greedy, as a baseline. Heaviest sample first, each to the least loaded replica
// (in lockstep: micro-batch) that has room.
#include "lf/plugin_sdk/plugin.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "planning/deal.h"
#include "planning/feasible.h"
#include "planning/options.h"
#include "planning/order.h"
#include "planning/places.h"
#include "planning/repair.h"
#include "planning/table.h"
#include "planning/untied.h"

LF_PLUGIN_MANIFEST(
    R"({"abi":"0.1","kind":"balancer","id":"longest_first","version":"0.1.0","interfaces":["lf.balancer/1"],"torch":"none"})");

namespace {

using namespace lf::planning;

class LongestFirst {
 public:
  explicit LongestFirst(std::string_view options) { read_settings(options, {}); }

  void plan(const lf_balance_input& input, lf_assignment* out, lf_balance_report&) const {
    const Problem problem = make_problem(input);
    const bool lockstep = problem.objective == LF_OBJECTIVE_LOCKSTEP;
    std::vector<double> slowness;  // by slot
    for (int32_t slot = 0; lockstep && !problem.slowness.empty() && slot < problem.slots; ++slot)
      slowness.push_back(problem.slowness[slot / problem.micro_batches]);

    Packing packing(problem);
    Dealing dealing;
    dealing.bins = lockstep ? Bins{0, problem.slots, 1} : Bins{0, problem.replicas, problem.micro_batches};
    dealing.weight = problem.cost;
    dealing.slowness = lockstep ? slowness : problem.slowness;
    std::vector<int64_t> load(dealing.bins.count, 0);
    std::vector<uint32_t> left;
    deal(packing, dealing, heaviest_first(problem.cost), load, left);
    if (!repair(packing, std::move(left))) packing = feasible_packing(problem);

    place_samples(input, packing.slots(), out);
    place_untied(input, packing.slots(), out);
    number_atoms(input, out);
  }
};

const lf_balancer_api kTable = table<LongestFirst>();
const lf::sdk::Interface kInterfaces[] = {{LF_BALANCER_INTERFACE, &kTable}};
const lf_plugin kPlugin = lf::sdk::make_plugin<kInterfaces>(LF_KIND_BALANCER, "longest_first", "0.1.0");

}  // namespace

extern "C" const lf_plugin* lf_plugin_entry(uint32_t, uint32_t) { return &kPlugin; }
