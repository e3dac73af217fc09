#include "balance/trigger.h"

#include <algorithm>

#include "balance/certificate.h"

namespace lf {
namespace {

struct Sum {
  double total = 0, heaviest = 0;
};

// Samples arrive in order, so atoms of a slot mostly stand together. They are added four abreast: one after the other,
// each addition waits for the last (3.3 ns an atom instead of 0.9, measured).
Sum sum_of(const double* seconds, size_t count) {
  double sum[4] = {0, 0, 0, 0}, most[4] = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (size_t lane = 0; lane < 4; ++lane) {
      sum[lane] += seconds[i + lane];
      most[lane] = most[lane] < seconds[i + lane] ? seconds[i + lane] : most[lane];
    }
  for (; i < count; ++i) {
    sum[0] += seconds[i];
    most[0] = std::max(most[0], seconds[i]);
  }
  return {(sum[0] + sum[1]) + (sum[2] + sum[3]), std::max({most[0], most[1], most[2], most[3]})};
}

// One past the last of the atoms from `begin` on that arrive in the same slot.
size_t end_of_run(const BalancePart& part, size_t begin) {
  const int32_t *replica = part.arrival_replica.data(), *micro_batch = part.arrival_micro_batch.data();
  const int32_t r = replica[begin], k = micro_batch[begin];
  const size_t n = part.seconds.size();
  size_t end = begin + 1;
  for (; end + 8 <= n; end += 8) {
    int32_t differ = 0;
    for (size_t i = 0; i < 8; ++i) differ |= (replica[end + i] ^ r) | (micro_batch[end + i] ^ k);
    if (differ != 0) break;
  }
  while (end < n && replica[end] == r && micro_batch[end] == k) ++end;
  return end;
}

// By slot; and the heaviest atom, found on the way.
std::vector<double> arrival_slots(const BalanceInput& input, const BalancePart& part, double& heaviest) {
  std::vector<double> slots(static_cast<size_t>(input.replicas) * input.micro_batches, 0.0);
  for (size_t begin = 0; begin < part.seconds.size();) {
    const size_t end = end_of_run(part, begin);
    const Sum sum = sum_of(part.seconds.data() + begin, end - begin);
    slots[static_cast<size_t>(part.arrival_replica[begin]) * input.micro_batches + part.arrival_micro_batch[begin]] +=
        sum.total;
    heaviest = std::max(heaviest, sum.heaviest);
    begin = end;
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
