// Who trains what: the step's samples, the balancer, and one rank's share.
#pragma once

#include <cstdint>
#include <vector>

#include "balance/balance.h"
#include "load/packing.h"

namespace lf {

// samples[rank][micro-batch]: indices into step.samples. Without a balancer, and for what balancers start from,
// micro-batch b of the step is micro-batch b % per_rank of rank b / per_rank.
std::vector<std::vector<std::vector<uint32_t>>> deal(const PackedStep& step, const ModelCalls& model,
                                                     const LoaderInputs& inputs, int64_t step_number, int32_t ranks);

}  // namespace lf
