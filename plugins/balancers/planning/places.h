// The last step of every policy: from the micro-batch of each sample to the assignment of each atom.
#pragma once

#include <cstdint>
#include <span>

#include "lf/plugin_api/balancer.h"

namespace lf::planning {

// out holds replica and micro_batch of every atom; fills in `order`, ascending by atom within each micro-batch, so that
// samples of one micro-batch keep their order in the data.
void number_atoms(const lf_balance_input& input, lf_assignment* out);

// slot: replica * micro_batches + micro_batch of every sample. Writes the last part's atoms and those of tied parts;
// atoms of other parts are left alone.
void place_samples(const lf_balance_input& input, std::span<const int32_t> slot, lf_assignment* out);

}  // namespace lf::planning
