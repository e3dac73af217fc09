// Q3: processor time of planning a whole step, one thread. The policy's own call, the whole of make_plan (checks,
// certificate and hash included), and the check that decides whether to plan.
#include <benchmark/benchmark.h>

#include "balance/policy.h"
#include "balance/scenario.h"
#include "balance/trigger.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/plugins.h"

namespace lf {
namespace {

Policy policy(const std::string& id) {
  static PluginSet plugins({LF_PLUGINS, LF_BENCHMARK_PLUGINS}, PluginHost{}, false);
  return Policy(id, plugins.load(PluginKind::kBalancer, id).interface<lf_balancer_api>(LF_BALANCER_INTERFACE), nullptr,
                "");
}

const char* const kDistributions[] = {"D1", "D4", "D5"};

// ranks, samples of a rank, distribution
BalanceInput input_of(const benchmark::State& state) {
  const auto ranks = static_cast<int32_t>(state.range(0));
  return scenario_input(
      synthetic_samples(kDistributions[state.range(2)], static_cast<size_t>(state.range(0) * state.range(1)), 1),
      named_cost("8B"), {.replicas = ranks, .micro_batches = 4, .cap = 1.05});
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"ranks", "per_rank", "distribution"})->Unit(benchmark::kMillisecond);
  for (const int64_t distribution : {0, 1, 2})
    for (const auto& [ranks, per_rank] : {std::pair<int64_t, int64_t>(128, 80), {512, 82}, {1024, 81}})
      benchmark->Args({ranks, per_rank, distribution});
}

void plan(benchmark::State& state, const char* id) {
  const BalanceInput input = input_of(state);
  const Policy one = policy(id);
  for (auto _ : state) benchmark::DoNotOptimize(one.ask(input).data());
  state.counters["samples"] = static_cast<double>(input.n_samples);
}
BENCHMARK_CAPTURE(plan, minimax, "minimax")->Apply(sizes);
BENCHMARK_CAPTURE(plan, longest_first, "longest_first")->Apply(sizes);
BENCHMARK_CAPTURE(plan, karmarkar_karp, "karmarkar_karp")->Apply(sizes);
BENCHMARK_CAPTURE(plan, published_lpt, "published_lpt")->Apply(sizes);

void whole(benchmark::State& state) {
  const BalanceInput input = input_of(state);
  const Policy one = policy("minimax");
  for (auto _ : state) benchmark::DoNotOptimize(one.plan(input).hash);
}
BENCHMARK(whole)->Apply(sizes);

void skip_check(benchmark::State& state) {
  const BalanceInput input = input_of(state);
  for (auto _ : state) benchmark::DoNotOptimize(weigh(input, 0.01).arrival_seconds);
}
BENCHMARK(skip_check)->Apply(sizes);

}  // namespace
}  // namespace lf

BENCHMARK_MAIN();
