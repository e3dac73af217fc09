// Planning problems for tests: drawn at random, with an arrival that keeps every promise, so that a plan exists.
#pragma once

#include <string>
#include <vector>

#include "balance/balance.h"
#include "balance/policy.h"
#include "balance/random.h"

namespace lf {

// The shipped policies, loaded once.
const std::vector<std::string>& policy_names();
Policy make_policy(const std::string& id, const std::string& options_json = "");

struct Drawn {
  int most_replicas = 12, most_micro_batches = 5, most_samples_per_slot = 6;
};
BalanceInput draw_problem(Random& random, const Drawn& drawn);

// One part, no limits, all samples at replica 0, micro-batch 0: what small tests start from.
BalanceInput plain_problem(int32_t replicas, int32_t micro_batches, std::vector<double> seconds,
                           std::vector<int64_t> rows = {});

// The best objective of all plans that keep every promise, by trying all; infinite if there is none. Tied parts only.
double best_by_trying_all(const BalanceInput& input);

}  // namespace lf
