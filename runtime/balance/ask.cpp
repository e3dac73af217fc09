#include "balance/ask.h"

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

}  // namespace

std::vector<lf_assignment> ask_policy(const lf_balancer_api* api, lf_balancer policy, const std::string& policy_id,
                                      const BalanceInput& input) {
  const std::vector<lf_balance_part> parts = borrow_parts(input);
  lf_balance_input problem = sdk::with_header<lf_balance_input>();
  problem.step = input.step;
  problem.seed = input.seed;
  problem.objective = input.objective;
  problem.n_parts = static_cast<uint32_t>(parts.size());
  problem.parts = parts.data();
  problem.n_samples = input.n_samples;
  problem.fixed_seconds = input.fixed_seconds;

  size_t n_atoms = 0;
  for (const BalancePart& part : input.parts) n_atoms += part.sample.size();
  std::vector<lf_assignment> assignments(n_atoms, lf_assignment{-1, -1, -1, 0});
  lf_balance_report report = sdk::with_header<lf_balance_report>();
  lf_err err = sdk::make_err();
  if (const int32_t code = api->plan(policy, &problem, assignments.data(), &report, &err); code != LF_OK)
    fail(code == LF_E_BUG ? Exit::kBug : Exit::kConfig, "balancer {}: step {}: {}", policy_id, input.step + 1,
         err.message);
  return assignments;
}

}  // namespace lf
