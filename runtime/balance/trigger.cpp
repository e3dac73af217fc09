#include "balance/trigger.h"

#include <algorithm>

#include "balance/certificate.h"

namespace lf {
namespace {

// By slot; and the heaviest atom, found on the way.
std::vector<double> arrival_slots(const BalanceInput& input, const BalancePart& part, double& heaviest) {
  std::vector<double> slots(static_cast<size_t>(input.replicas) * input.micro_batches, 0.0);
  for (size_t i = 0; i < part.seconds.size(); ++i) {
    slots[static_cast<size_t>(part.arrival_replica[i]) * input.micro_batches + part.arrival_micro_batch[i]] +=
        part.seconds[i];
    heaviest = std::max(heaviest, part.seconds[i]);
  }
  return slots;
}

}  // namespace

Decision weigh(const BalanceInput& input, double gap) {
  Decision decision;
  std::vector<std::vector<double>> slots;
  double bound = 0, speeds = input.speed.empty() ? input.replicas : 0, fastest = input.speed.empty() ? 1 : 0;
  for (const double speed : input.speed) {
    speeds += speed;
    fastest = std::max(fastest, speed);
  }
  const double fixed = input.fixed_seconds * input.micro_batches;
  decision.mean_seconds = input.replicas * fixed / speeds;
  double heaviest_of_all = 0;
  const bool staged = input.objective == LF_OBJECTIVE_TWO_STAGE;
  for (const BalancePart& part : input.parts) {
    double heaviest = 0, total = 0;
    slots.push_back(arrival_slots(input, part, heaviest));
    for (const double seconds : slots.back()) total += seconds;
    decision.mean_seconds += total / speeds;
    heaviest_of_all = std::max(heaviest_of_all, heaviest);
    if (staged) bound += std::max(total / speeds, heaviest / fastest);
  }
  bound = staged ? bound + fixed / fastest : std::max(decision.mean_seconds, (heaviest_of_all + fixed) / fastest);
  decision.arrival_seconds = objective_of_slots(input, std::move(slots));
  decision.expected_seconds = std::min(decision.arrival_seconds, bound * (1 + gap));
  return decision;
}

void decide(Decision& decision, const TriggerSettings& settings) {
  const double doubt = settings.errors > 0 ? settings.errors * decision.standard_error : 0;  // it may be infinite
  decision.balance = decision.saving() > settings.exposed_seconds + doubt;
}

}  // namespace lf
