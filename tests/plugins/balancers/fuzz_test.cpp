// Problems by the hundred thousand: every policy keeps every promise on each of them.
#include <cstdlib>

#include <gtest/gtest.h>

#include "balance/certificate.h"
#include "balance/evaluate.h"
#include "core/error.h"
#include "plugins/balancers/problems.h"

namespace lf {
namespace {

// CI takes a part; LF_FUZZ_BATCHES=1000000 is the whole.
int batches() {
  const char* wanted = std::getenv("LF_FUZZ_BATCHES");
  return wanted != nullptr ? std::atoi(wanted) : 20'000;
}

TEST(Fuzz, no_policy_breaks_a_promise_of_the_interface) {
  std::vector<Policy> policies;
  for (const std::string& name : policy_names()) policies.push_back(make_policy(name));
  policies.push_back(make_policy("minimax", R"({"moves":"few"})"));
  policies.push_back(make_policy("minimax", R"({"moves":"packs"})"));
  Random random(20240601);
  for (int batch = 0; batch < batches(); ++batch) {
    const BalanceInput input = draw_problem(random, {});
    const size_t which = random.below(policies.size());
    const bool few = which == 4;
    if (few && (input.objective == LF_OBJECTIVE_LOCKSTEP || input.objective == LF_OBJECTIVE_TWO_STAGE)) continue;
    try {
      const BalancePlan plan = policies[which].plan(input);  // refuses what breaks a promise
      ASSERT_EQ(plan.hash, policies[which].plan(input).hash) << "batch " << batch << ": not a pure function";
      ASSERT_GE(plan.objective_seconds, plan.lower_bound_seconds * (1 - 1e-9)) << "batch " << batch;
    } catch (const Error& error) {
      FAIL() << "batch " << batch << ", " << policies[which].id() << " " << which << ": " << error.what();
    }
  }
}

TEST(Fuzz, minimax_is_never_worse_than_the_arrival) {
  const Policy minimax = make_policy("minimax"), none = make_policy("none");
  Random random(11);
  for (int batch = 0; batch < batches() / 4; ++batch) {
    BalanceInput input = draw_problem(random, {});
    for (BalancePart& part : input.parts) part.tied = true;
    if (input.parts.size() > 1) input.parts[0].row_limit = 0;  // images of a sample together may not fit
    const double planned = minimax.plan(input).objective_seconds, arrived = none.plan(input).objective_seconds;
    ASSERT_LE(planned, arrived * (1 + 1e-6)) << "batch " << batch << ", objective " << input.objective;
  }
}

}  // namespace
}  // namespace lf
