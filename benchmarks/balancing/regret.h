// Q9: what a trigger costs against an oracle that knows the true seconds of a step, balanced or not, in advance.
#pragma once

#include <cstdint>
#include <string>

#include "balance/policy.h"

namespace lf {

struct Regret {
  // (seconds of the choices made - seconds of the oracle's) / seconds of the oracle's, warm-up included.
  double ours = 0;   // by expected saving against its error, with costs learned on the way
  double ratio = 0;  // by the published rule, given the true costs: max / mean - 1 >= 0.2
  double oracle_share = 0, our_share = 0, ratio_share = 0;  // of steps that are balanced
};

// 60 steps of 64 replicas x 4 micro-batches each, the machine with 2 s fixed a step and 5% noise. `exposed`: what
// applying a plan costs, as a share of the mean step.
Regret measure_regret(const Policy& policy, const std::string& distribution, int64_t pack, double exposed, int seeds);

}  // namespace lf
