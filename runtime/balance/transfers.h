// For streams that cannot be read by index (a pipe, a tar in one pass): who sends which samples to whom. Where samples
// are loaded by plan nothing travels, and none of this is used.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/balance.h"

namespace lf {

// One message: all that goes between two ranks in a step.
struct Transfer {
  int32_t peer = 0;
  std::vector<uint32_t> samples;  // ascending
};

struct Transfers {
  int64_t step = 0;  // stamps every message: what arrives early waits for its step
  std::vector<Transfer> sends, receives;
};

// Of `rank`, a replica of the plan. Peers of the same node (consecutive ranks, ranks_per_node of them) come first, then
// the others, both from the next rank upwards and around, so that not all ranks start with the same one. Pure.
Transfers transfers_of(const BalanceInput& input, const BalancePlan& plan, int32_t rank, int32_t ranks_per_node);

}  // namespace lf
