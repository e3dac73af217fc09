// Which of a model's own parameters a shell pattern selects, as model.freeze, model.new_parameters and lora.also_train
// have them. Pure.
#pragma once

#include <string>
#include <vector>

#include "model/description.h"

namespace lf {

// By their names or their component's; in the order of Description::parameters, adapters' excluded.
std::vector<size_t> selected_parameters(const Description& description, const std::string& pattern);

// Names of components and parameters that a pattern which selects nothing may have meant; see near_names.
std::string near_own_names(const Description& description, const std::string& pattern);

}  // namespace lf
