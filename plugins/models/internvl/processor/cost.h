// What an atom is, in numbers, and what a unit costs for atoms. Pure. What counts is in family/cost.h.
#pragma once

#include <cstdint>
#include <span>

#include "family/features.h"
#include "family/sequence.h"
#include "internvl/config.h"
#include "internvl/processor/loss_weighting.h"
#include "lf/plugin_api/model.h"

namespace lf::internvl {

// Vision, of a tile: patches, pairs that attend to one another (with the class row), 0. Language, of a sample: rows,
// loss weight, pairs, supervised rows.
family::Features features_of(std::span<const family::Sequence> sequences, const InternVlConfig& config,
                             LossWeighting weighting);

// Units as the components number them.
lf_cost vision_cost(const InternVlConfig& config, int64_t unit, std::span<const double> atoms);
lf_cost language_cost(const InternVlConfig& config, int64_t unit, std::span<const double> atoms);

}  // namespace lf::internvl
