// The call of a policy across the ABI, and nothing else.
#pragma once

#include <string>
#include <vector>

#include "balance/balance.h"

namespace lf {

// What the policy answers for each part and atom, unchecked; places it left out are -1. Throws lf::Error, naming the
// policy, for what it reports (kBug for LF_E_BUG, else kConfig). Pure.
std::vector<lf_assignment> ask_policy(const lf_balancer_api* api, lf_balancer policy, const std::string& policy_id,
                                      const BalanceInput& input);

}  // namespace lf
