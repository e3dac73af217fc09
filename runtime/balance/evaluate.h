// How good a policy is on one problem, broken promises counted instead of refused.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/certificate.h"
#include "balance/policy.h"

namespace lf {

struct Outcome {
  Certificate certificate;
  std::vector<lf_assignment> assignments;
  int64_t tokens = 0, moved_tokens = 0;  // rows of the last part; those on another replica than they arrived at
  int64_t empty_slots = 0;               // micro-batches without a sample, where there are enough samples
  int64_t cap_breaches = 0;              // (part, micro-batch)s above a limit
  double plan_ms = 0;                    // of the policy's own call
};

// Throws what the policy throws, and kConfig where it left an atom out, or placed it twice or nowhere.
Outcome evaluate(const Policy& policy, const BalanceInput& input);

// The same for places that are known already.
Outcome assess(const BalanceInput& input, std::vector<lf_assignment> assignments);

}  // namespace lf
