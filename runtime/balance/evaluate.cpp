#include "balance/evaluate.h"

#include <chrono>
#include <utility>

#include "balance/validate.h"

namespace lf {
namespace {

int64_t count_breaches(const BalanceInput& input, const BalancePart& part, std::span<const lf_assignment> places) {
  const size_t slots = static_cast<size_t>(input.replicas) * input.micro_batches;
  std::vector<int64_t> rows(slots, 0), bytes(slots, 0);
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t slot = static_cast<size_t>(places[i].replica) * input.micro_batches + places[i].micro_batch;
    rows[slot] += part.rows[i];
    bytes[slot] += part.bytes[i];
  }
  int64_t breaches = 0;
  for (size_t slot = 0; slot < slots; ++slot)
    breaches +=
        (part.row_limit > 0 && rows[slot] > part.row_limit) || (part.byte_limit > 0 && bytes[slot] > part.byte_limit);
  return breaches;
}

}  // namespace

Outcome assess(const BalanceInput& input, std::vector<lf_assignment> assignments) {
  Outcome outcome;
  outcome.certificate = certify(input, assignments);
  std::span<const lf_assignment> rest = assignments;
  for (const BalancePart& part : input.parts) {
    outcome.cap_breaches += count_breaches(input, part, rest.first(part.sample.size()));
    if (&part != &input.parts.back()) rest = rest.subspan(part.sample.size());
  }
  const BalancePart& last = input.parts.back();
  std::vector<int64_t> samples(static_cast<size_t>(input.replicas) * input.micro_batches, 0);
  for (size_t i = 0; i < rest.size(); ++i) {
    outcome.tokens += last.rows[i];
    if (rest[i].replica != last.arrival_replica[i]) outcome.moved_tokens += last.rows[i];
    ++samples[static_cast<size_t>(rest[i].replica) * input.micro_batches + rest[i].micro_batch];
  }
  for (const int64_t count : samples) outcome.empty_slots += count == 0 && input.n_samples >= samples.size();
  outcome.assignments = std::move(assignments);
  return outcome;
}

Outcome evaluate(const Policy& policy, const BalanceInput& input) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point before = Clock::now();
  std::vector<lf_assignment> assignments = policy.ask(input);
  const double plan_ms = std::chrono::duration<double, std::milli>(Clock::now() - before).count();
  validate_places(policy.id(), input, assignments);
  Outcome outcome = assess(input, std::move(assignments));
  outcome.plan_ms = plan_ms;
  return outcome;
}

}  // namespace lf
