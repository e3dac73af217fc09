#include "conformance/model_case_lists.h"

namespace lf::kit {

std::vector<Case> model_cases() {
  std::vector<Case> all = model_description_cases();
  for (auto* const more : {&model_sample_cases, &model_pass_cases}) {
    std::vector<Case> cases = more();
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace lf::kit
