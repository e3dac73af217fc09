#include "balance/balance.h"

#include <xxhash.h>

#include "balance/certificate.h"
#include "balance/validate.h"
#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

std::vector<lf_balance_part> borrow_parts(const BalanceInput& input) {
  std::vector<lf_balance_part> parts;
  for (const BalancePart& part : input.parts) {
    lf_balance_part out = sdk::with_header<lf_balance_part>();
    out.name = sdk::str(part.name);
    out.replicas = input.replicas;
    out.micro_batches = input.micro_batches;
    out.tied = part.tied ? 1 : 0;
    out.row_limit = part.row_limit;
    out.byte_limit = part.byte_limit;
    out.speed = input.speed.empty() ? nullptr : input.speed.data();
    out.n_atoms = part.sample.size();
    out.sample = part.sample.data();
    out.seconds = part.seconds.data();
    out.rows = part.rows.data();
    out.bytes = part.bytes.data();
    out.arrival_replica = part.arrival_replica.data();
    out.arrival_micro_batch = part.arrival_micro_batch.data();
    parts.push_back(out);
  }
  return parts;
}

// Of the numbers planned with and of the outcome: ranks that disagree on either must not train.
uint64_t hash_of(const BalanceInput& input, const std::vector<lf_assignment>& assignments) {
  const auto bytes = [](const auto& values, uint64_t seed) {
    return XXH3_64bits_withSeed(values.data(), values.size() * sizeof(values[0]), seed);
  };
  uint64_t hash = XXH3_64bits_withSeed(&input.step, sizeof input.step, input.seed);
  for (const BalancePart& part : input.parts) hash = bytes(part.seconds, bytes(part.rows, hash));
  return bytes(assignments, hash);
}

}  // namespace

BalancePlan make_plan(const lf_balancer_api* api, lf_balancer policy, const std::string& policy_id,
                      const BalanceInput& input) {
  validate_input(input);
  const std::vector<lf_balance_part> parts = borrow_parts(input);
  lf_balance_input problem = sdk::with_header<lf_balance_input>();
  problem.step = input.step;
  problem.seed = input.seed;
  problem.objective = input.objective;
  problem.n_parts = static_cast<uint32_t>(parts.size());
  problem.parts = parts.data();
  problem.n_samples = input.n_samples;
  problem.fixed_seconds = input.fixed_seconds;

  BalancePlan plan;
  size_t n_atoms = 0;
  for (const BalancePart& part : input.parts) n_atoms += part.sample.size();
  plan.assignments.assign(n_atoms, lf_assignment{-1, -1, -1, 0});
  lf_balance_report report = sdk::with_header<lf_balance_report>();
  lf_err err = sdk::make_err();
  if (const int32_t code = api->plan(policy, &problem, plan.assignments.data(), &report, &err); code != LF_OK)
    fail(code == LF_E_BUG ? Exit::kBug : Exit::kConfig, "balancer {}: step {}: {}", policy_id, input.step, err.message);
  validate_plan(policy_id, input, plan.assignments);

  const Certificate certificate = certify(input, plan.assignments);
  plan.objective_seconds = certificate.objective;
  plan.lower_bound_seconds = certificate.lower_bound;
  plan.mean_seconds = certificate.mean;
  plan.remedy = certificate.remedy;
  plan.hash = hash_of(input, plan.assignments);

  plan.samples.assign(input.replicas, std::vector<std::vector<uint32_t>>(input.micro_batches));
  const lf_assignment* of_samples = plan.assignments.data() + (n_atoms - input.n_samples);
  for (uint64_t i = 0; i < input.n_samples; ++i) {
    auto& micro_batch = plan.samples[of_samples[i].replica][of_samples[i].micro_batch];
    if (micro_batch.size() <= static_cast<size_t>(of_samples[i].order)) micro_batch.resize(of_samples[i].order + 1);
    micro_batch[of_samples[i].order] = static_cast<uint32_t>(i);
  }
  return plan;
}

}  // namespace lf
