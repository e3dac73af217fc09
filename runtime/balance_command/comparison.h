// Policies side by side over the same steps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "balance/policy.h"
#include "balance_command/options.h"
#include "balance_command/steps.h"

namespace lf {

// Makes the policy of that name with these settings (JSON); throws lf::Error where there is none.
using PolicyMaker = std::function<Policy(const std::string& id, const std::string& options_json)>;

// A policy over all steps: sums, and the seconds of every replica in all of them.
struct PolicyResult {
  std::string policy;
  double makespan = 0, mean = 0, lower_bound = 0, plan_ms = 0;
  int64_t tokens = 0, moved_tokens = 0, empty_slots = 0, cap_breaches = 0, steps = 0, planned = 0;
  double noisy = 0;  // makespan with what a machine's noise adds to the slowest
  std::string remedy;
  std::vector<double> replica_seconds;
  double gap() const { return lower_bound > 0 ? makespan / lower_bound - 1 : 0; }
};

// One result for each policy of the options, in their order. The lower bound is the same for all: the best that any
// policy's certificate gives.
std::vector<PolicyResult> compare(const Steps& steps, const BalanceOptions& options, const PolicyMaker& make_policy);

// minimax, unless another is better by more than a plan's own tolerance.
const PolicyResult& recommended(const std::vector<PolicyResult>& results);

}  // namespace lf
