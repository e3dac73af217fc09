// What the first loss says of the weights that a run began with.
#pragma once

#include <string>

#include "model/description.h"
#include "train/step_sums.h"

namespace lf {

// A model that guesses evenly among V tokens has a loss of ln V, and one whose weights were misread (a table without
// its scales, a head that belongs to another table: mcore-bridge#183) has that or more, where one that learnt anything
// has far less. A sentence that says so where the loss of this step is beyond nine tenths of ln V; empty otherwise, and
// where the model has no output "logits" or nothing was supervised. The token loss is "ce_loss" where the model tells
// one, else its loss. weight: of all ranks' samples.
std::string doubt_of_loaded_weights(const Description& description, const StepSums& first, double weight);

}  // namespace lf
