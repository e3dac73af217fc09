// What the optimizer does with each trained parameter: [optimizer] and its groups against a model's parameters.
#pragma once

#include <cstddef>
#include <vector>

#include "config/job.h"
#include "model/parameter_store.h"
#include "optimizer/adamw.h"

namespace lf {

// By index in Description::parameters: the group in settings.groups that a trained parameter is in, or -1. Throws
// kConfig where two groups match a parameter, or a pattern matches nothing that is trained.
std::vector<int> parameter_groups(const Description& description, const Freezing& freezing,
                                  const OptimizerSection& settings);

// The store's trained parameters, in its order.
std::vector<OptimizedParameter> optimized_parameters(const ParameterStore& store, const std::vector<int>& groups,
                                                     const OptimizerSection& settings);

}  // namespace lf
