// From the numbers of one step's samples to who trains what: a policy plugin's plan, checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lf/plugin_api/balancer.h"

namespace lf {

// One component's atoms over all samples of the step, in sample order. Vectors have one element per atom.
struct BalancePart {
  std::string name;
  bool tied = true;  // its atoms go where their sample goes
  int64_t row_limit = 0, byte_limit = 0;
  std::vector<uint64_t> sample;
  std::vector<double> seconds;
  std::vector<int64_t> rows, bytes;
  std::vector<int32_t> arrival_replica, arrival_micro_batch;
};

struct BalanceInput {
  int64_t step = 0;
  uint64_t seed = 0;
  int32_t objective = LF_OBJECTIVE_SUM;
  int32_t replicas = 1, micro_batches = 1;
  std::vector<double> speed;       // per replica; empty: all 1
  double fixed_seconds = 0;        // per micro-batch
  std::vector<BalancePart> parts;  // the last one has exactly one atom per sample
  uint64_t n_samples = 0;
};

// samples[replica][micro_batch]: indices of the step's samples, in their order there.
struct BalancePlan {
  std::vector<std::vector<std::vector<uint32_t>>> samples;
  std::vector<lf_assignment> assignments;  // per part and atom
  // The certificate (balance/certificate.h), computed by the runtime, not taken from the policy's report.
  double objective_seconds = 0, lower_bound_seconds = 0, mean_seconds = 0;
  std::string remedy;  // what would help where the bound itself is bad; else empty
  uint64_t hash = 0;   // equal on every rank, or something is very wrong
};

// Calls the policy and refuses a bad plan by the policy's name: an atom missing or twice, a place out of range, a limit
// broken, an empty micro-batch where there are enough samples, a tied atom elsewhere than its sample. Pure.
BalancePlan make_plan(const lf_balancer_api* api, lf_balancer policy, const std::string& policy_id,
                      const BalanceInput& input);

// The arrival as a plan, where it keeps every promise; kConfig where it does not. Pure.
BalancePlan arrival_plan(const BalanceInput& input);

}  // namespace lf
