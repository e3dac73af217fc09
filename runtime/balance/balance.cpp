#include "balance/balance.h"

#include <utility>

#include <xxhash.h>

#include "balance/ask.h"
#include "balance/certificate.h"
#include "balance/validate.h"

namespace lf {
namespace {

// Of the numbers planned with and of the outcome: ranks that disagree on either must not train.
uint64_t hash_of(const BalanceInput& input, const std::vector<lf_assignment>& assignments) {
  const auto bytes = [](const auto& values, uint64_t seed) {
    return XXH3_64bits_withSeed(values.data(), values.size() * sizeof(values[0]), seed);
  };
  uint64_t hash = XXH3_64bits_withSeed(&input.step, sizeof input.step, input.seed);
  for (const BalancePart& part : input.parts) hash = bytes(part.seconds, bytes(part.rows, hash));
  return bytes(assignments, hash);
}

BalancePlan finish(const std::string& policy_id, const BalanceInput& input, std::vector<lf_assignment> assignments) {
  const SlotOrder order = validate_plan(policy_id, input, assignments);
  BalancePlan plan;
  plan.assignments = std::move(assignments);
  const Certificate certificate = certify(input, plan.assignments);
  plan.objective_seconds = certificate.objective;
  plan.lower_bound_seconds = certificate.lower_bound;
  plan.mean_seconds = certificate.mean;
  plan.remedy = certificate.remedy;
  plan.hash = hash_of(input, plan.assignments);

  plan.samples.assign(input.replicas, std::vector<std::vector<uint32_t>>(input.micro_batches));
  for (size_t slot = 0; slot + 1 < order.first.size(); ++slot)
    plan.samples[slot / input.micro_batches][slot % input.micro_batches].assign(
        order.samples.begin() + static_cast<ptrdiff_t>(order.first[slot]),
        order.samples.begin() + static_cast<ptrdiff_t>(order.first[slot + 1]));
  return plan;
}

}  // namespace

BalancePlan make_plan(const lf_balancer_api* api, lf_balancer policy, const std::string& policy_id,
                      const BalanceInput& input) {
  validate_input(input);
  return finish(policy_id, input, ask_policy(api, policy, policy_id, input));
}

BalancePlan arrival_plan(const BalanceInput& input) {
  validate_input(input);
  std::vector<lf_assignment> places;
  std::vector<int32_t> count;
  for (const BalancePart& part : input.parts) {
    count.assign(static_cast<size_t>(input.replicas) * input.micro_batches, 0);
    for (size_t i = 0; i < part.sample.size(); ++i) {
      const int32_t replica = part.arrival_replica[i], k = part.arrival_micro_batch[i];
      places.push_back({replica, k, count[static_cast<size_t>(replica) * input.micro_batches + k]++, 0});
    }
  }
  return finish("(arrival)", input, std::move(places));
}

}  // namespace lf
