// A job on many more ranks than anybody has rented yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "balance_command/comparison.h"
#include "balance_command/options.h"
#include "balance_command/steps.h"

namespace lf {

struct ScalingPoint {
  int32_t replicas = 0;
  std::string policy;
  double step_seconds = 0, efficiency = 0, tokens_per_second = 0, exposed = 0;
};

// For every replica count of the options, each of their policies. balance/scaling.h says what a step is made of.
std::vector<ScalingPoint> simulate(const BalanceOptions& options, const Source& source, const PolicyMaker& make_policy);

}  // namespace lf
