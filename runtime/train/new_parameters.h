// What a job begins at random beside the weights that it starts from: [model] new_parameters.
#pragma once

#include <string>
#include <vector>

#include "config/job.h"
#include "model/description.h"
#include "weights/load.h"

namespace lf {

// By Description::own_parameters: what the patterns name. A pattern names parameters by their names, by their
// component's, or by the names of all tensors that files hold them in. Throws kConfig for one that matches nothing.
std::vector<bool> named_new(const Description& description, const ModelSection& model);

// Throws kConfig for a pattern all of whose parameters are in the weights.
void require_new(const Description& description, const ModelSection& model, const LoadPlan& plan);

// "5 parameters of 1.2K elements that PATH does not hold, initialised by seed 3: model.layers.{0..4}.x (5)"; empty
// where there is none.
std::string new_parameters_text(const LoadPlan& plan, uint64_t seed);

}  // namespace lf
