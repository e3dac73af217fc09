// What must hold of a planning problem before a policy sees it, and of its plan before anyone trains on it.
#pragma once

#include <span>
#include <string>

#include "balance/balance.h"

namespace lf {

// Throws kBug where the runtime built the problem wrongly (sizes, places, numbers that are not finite and >= 0), and
// kBadData where a sample alone is above a limit, so that no plan exists.
void validate_input(const BalanceInput& input);

// Throws kConfig, naming the policy, where the plan breaks a promise of lf/plugin_api/balancer.h.
// assignments: per part and atom, as the policy wrote them.
void validate_plan(const std::string& policy_id, const BalanceInput& input, std::span<const lf_assignment> assignments);

}  // namespace lf
