// What must hold of a planning problem before a policy sees it, and of its plan before anyone trains on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "balance/balance.h"

namespace lf {

// Throws kBug where the runtime built the problem wrongly (sizes, places, numbers that are not finite and >= 0), and
// kBadData where a sample alone is above a limit, so that no plan exists.
void validate_input(const BalanceInput& input);

// Throws kConfig, naming the policy, where the plan breaks a promise of lf/plugin_api/balancer.h.
// assignments: per part and atom, as the policy wrote them.
// Returns who is where: the samples of slot s = replica * micro_batches + micro-batch are samples[first[s]] up to
// samples[first[s + 1]], in their order there.
struct SlotOrder {
  std::vector<size_t> first;
  std::vector<uint32_t> samples;
};
SlotOrder validate_plan(const std::string& policy_id, const BalanceInput& input,
                        std::span<const lf_assignment> assignments);

// The part of it that nothing can be counted without: each atom once, at a place that exists, tied ones with their
// sample. Limits may be broken and micro-batches empty.
void validate_places(const std::string& policy_id, const BalanceInput& input,
                     std::span<const lf_assignment> assignments);

}  // namespace lf
