// Promises of lf/plugin_api/model.h, the parts of model_cases().
#pragma once

#include "conformance/bench.h"

namespace lf::kit {

std::vector<Case> model_description_cases();
std::vector<Case> model_sample_cases();
std::vector<Case> model_pass_cases();

}  // namespace lf::kit
