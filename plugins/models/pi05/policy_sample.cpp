#include "pi05/policy_sample.h"

#include <algorithm>

namespace lf::pi05 {

int64_t PolicySample::valid_actions() const { return std::count(valid.begin(), valid.end(), uint8_t{1}); }

void put_actions(PolicySample& sample, std::span<const float> actions, std::span<const float> noise) {
  const float time = sample.time;
  for (size_t i = 0; i < actions.size(); ++i) {
    sample.actions.push_back(time * noise[i] + (1 - time) * actions[i]);
    sample.target.push_back(noise[i] - actions[i]);
  }
}

}  // namespace lf::pi05
