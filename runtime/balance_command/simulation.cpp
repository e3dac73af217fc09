#include "balance_command/simulation.h"

#include <algorithm>

#include "balance/scaling.h"

namespace lf {
namespace {

// Few ranks need many steps before a mean says something.
int simulated_steps(const Scenario& scenario) {
  constexpr int64_t kSlots = 512, kMost = 64;
  const int64_t slots = int64_t{scenario.replicas} * scenario.micro_batches;
  return static_cast<int>(std::clamp<int64_t>(kSlots / slots, 1, kMost));
}

}  // namespace

std::vector<ScalingPoint> simulate(const BalanceOptions& options, const Source& source,
                                   const PolicyMaker& make_policy) {
  std::vector<ScalingPoint> points;
  const Profile& profile = options.profile;
  for (const int32_t replicas : options.scaling) {
    BalanceOptions sized = options;
    sized.scenario.replicas = replicas;
    Steps steps;
    for (int i = 0; i < simulated_steps(sized.scenario); ++i) {
      sized.seed = options.seed + static_cast<uint64_t>(i);
      steps.push_back(drawn_step(source, sized));
    }
    const auto count = static_cast<double>(steps.size());
    for (const PolicyResult& row : compare(steps, sized, make_policy)) {
      ScalingPoint point;
      point.replicas = replicas;
      point.policy = row.policy;
      const double mean = row.mean / count;
      const double fixed = profile.fixed_seconds * options.scenario.micro_batches + profile.other_seconds;
      // Planning runs one step ahead: only what is longer than a step would be waited for.
      const double late = std::max(0.0, row.plan_ms * 1e-3 / count - mean);
      point.exposed = exposed_seconds(profile, replicas, mean) + late;
      point.step_seconds = row.noisy / count + fixed + point.exposed;
      point.efficiency = (mean + fixed) / point.step_seconds;
      point.tokens_per_second = static_cast<double>(row.tokens) / count / replicas / point.step_seconds;
      points.push_back(point);
    }
  }
  return points;
}

}  // namespace lf
