// Atoms that need not go with their sample: images and frames of an encoder that works on each by itself.
#pragma once

#include <cstdint>
#include <span>

#include "lf/plugin_api/balancer.h"

namespace lf::planning {

// Places the atoms of every untied part, heaviest first, where they fill up what the samples left uneven: by
// micro-batch in lockstep, by replica where the parts share one barrier, and for themselves in two-stage. `slot` has
// the place of each sample, `out` gets replica and micro-batch. An atom stays in its sample's micro-batch unless a
// limit of the part forbids it. Throws sdk::Failure(LF_E_INVALID) where the limits leave no place.
void place_untied(const lf_balance_input& input, std::span<const int32_t> slot, lf_assignment* out);

}  // namespace lf::planning
