#include "balance_command/comparison.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "balance/evaluate.h"
#include "balance/scaling.h"
#include "balance/scenario.h"
#include "balance/trigger.h"
#include "core/error.h"

namespace lf {
namespace {

constexpr int kTimedCalls = 3;

// Policies and certificates name the job's option; beside a job file that is what there is to change.
std::string with_flags(std::string text, const BalanceOptions& options) {
  constexpr std::string_view kOption = "raise data.max_tokens";
  const size_t at = text.find(kOption);
  if (at != text.npos && options.job.empty())
    text.insert(at + kOption.size(), options.scenario.pack > 0 ? " (here --pack)" : " (here --cap; 0 is no limit)");
  return text;
}

// What no policy should be blamed for.
void require_finite(const BalanceInput& input, const std::vector<WorkSample>& samples) {
  double sum = 0;
  for (const BalancePart& part : input.parts)
    for (size_t i = 0; i < part.seconds.size(); ++i) {
      sum += part.seconds[i];
      if (!std::isfinite(sum))
        fail(Exit::kUsage,
             "lfrun balance: {} seconds for sample {}, {} for those up to it; expected finite numbers: lower --cost's "
             "numbers, raise --flops or correct the profile",
             part.seconds[i], samples[part.sample[i]].id, sum);
    }
}

void require_atoms(const std::vector<WorkSample>& samples, const Scenario& scenario) {
  if (!scenario.frames_are_atoms) return;
  int64_t frames = 0;
  for (const WorkSample& sample : samples) {
    frames += std::min(kMostDrawn + 1, sample.frames);
    if (frames > kMostDrawn)
      fail(
          Exit::kUsage,
          "lfrun balance: --frames-apart: expected at most {} frames in a step, got more with sample {}, which has {}; "
          "lower --per-rank, or leave frames with their samples",
          kMostDrawn, sample.id, sample.frames);
  }
}

Outcome planned_outcome(const Policy& policy, const BalanceInput& input, const BalanceOptions& options) {
  try {
    return evaluate(policy, input);
  } catch (const Error& error) {
    throw Error(error.exit(), with_flags(error.what(), options));
  }
}

// The arrival where the trigger holds a plan back.
Outcome outcome_of(const Policy& policy, const BalanceInput& input, const BalanceOptions& options, bool& planned) {
  planned = weigh(input, 0).imbalance() > options.trigger || options.trigger == 0;
  if (planned) {
    Outcome outcome = planned_outcome(policy, input, options);
    // The fastest of a few calls: what else the machine does is not the policy's time.
    for (int again = 1; again < kTimedCalls; ++again)
      outcome.plan_ms = std::min(outcome.plan_ms, evaluate(policy, input).plan_ms);
    return outcome;
  }
  std::vector<lf_assignment> places;
  for (const BalancePart& part : input.parts)
    for (size_t i = 0; i < part.sample.size(); ++i)
      places.push_back({part.arrival_replica[i], part.arrival_micro_batch[i], 0, 0});
  return assess(input, std::move(places));
}

}  // namespace

std::vector<PolicyResult> compare(const Steps& steps, const BalanceOptions& options, const PolicyMaker& make_policy) {
  std::vector<PolicyResult> rows;
  std::vector<double> bounds(steps.size(), 0.0);  // the best of any policy's certificates holds for all
  for (const std::string& name : options.policies) {
    const auto settings = options.policy_options.find(name);
    const Policy policy = make_policy(name, settings == options.policy_options.end() ? "" : settings->second);
    PolicyResult row;
    row.policy = name;
    row.replica_seconds.assign(options.scenario.replicas, 0.0);
    for (size_t s = 0; s < steps.size(); ++s) {
      require_atoms(steps[s], options.scenario);
      BalanceInput input = scenario_input(steps[s], options.cost, options.scenario);
      input.step = static_cast<int64_t>(s);
      require_finite(input, steps[s]);
      bool planned = false;
      const Outcome outcome = outcome_of(policy, input, options, planned);
      bounds[s] = std::max(bounds[s], outcome.certificate.lower_bound);
      row.makespan += outcome.certificate.objective;
      row.mean += outcome.certificate.mean;
      row.plan_ms += outcome.plan_ms;
      row.tokens += outcome.tokens;
      row.moved_tokens += outcome.moved_tokens;
      row.empty_slots += outcome.empty_slots;
      row.cap_breaches += outcome.cap_breaches;
      row.planned += planned;
      if (!outcome.certificate.remedy.empty()) row.remedy = with_flags(outcome.certificate.remedy, options);
      std::vector<double> seconds(options.scenario.replicas, 0.0);
      for (size_t p = 0; p < input.parts.size(); ++p) {
        const std::vector<double> slots = slot_seconds(input, p, outcome.assignments);
        for (size_t slot = 0; slot < slots.size(); ++slot)
          seconds[slot / options.scenario.micro_batches] += slots[slot];
      }
      if (!options.scaling.empty())
        row.noisy +=
            outcome.certificate.objective * slowdown_by_noise(seconds, options.profile.noise, options.seed + s);
      for (size_t r = 0; r < seconds.size(); ++r) row.replica_seconds[r] += seconds[r];
    }
    row.steps = static_cast<int64_t>(steps.size());
    rows.push_back(std::move(row));
  }
  for (PolicyResult& row : rows) row.lower_bound = std::accumulate(bounds.begin(), bounds.end(), 0.0);
  return rows;
}

const PolicyResult& recommended(const std::vector<PolicyResult>& rows) {
  const auto best = std::ranges::min_element(rows, {}, &PolicyResult::makespan);
  const auto ours = std::ranges::find(rows, "minimax", &PolicyResult::policy);
  return ours != rows.end() && ours->makespan <= best->makespan * 1.001 ? *ours : *best;
}

}  // namespace lf
