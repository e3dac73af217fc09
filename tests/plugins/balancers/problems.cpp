#include "plugins/balancers/problems.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "balance/certificate.h"
#include "balance/validate.h"
#include "core/error.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/plugins.h"

namespace lf {
namespace {

// Slots of samples: at least one in each where there are enough.
std::vector<int32_t> draw_arrival(Random& random, size_t samples, int32_t slots) {
  std::vector<int32_t> slot(samples);
  for (size_t i = 0; i < samples; ++i)
    slot[i] = static_cast<int32_t>(i < static_cast<size_t>(slots) ? i : random.below(slots));
  for (size_t i = samples; i > 1; --i) std::swap(slot[i - 1], slot[random.below(i)]);
  return slot;
}

double draw_seconds(Random& random, int kind) {
  switch (kind) {
    case 0:
      return 1;  // all alike
    case 1:
      return random.uniform();
    case 2:
      return random.lognormal(0, 2);  // a long tail
    case 3:
      return random.uniform() < 0.5 ? 0 : 1;  // many without any cost
    default:
      return static_cast<double>(1 + random.below(4));
  }
}

int64_t largest_slot(const BalanceInput& input, const BalancePart& part, const std::vector<int64_t>& amount) {
  std::vector<int64_t> sums(static_cast<size_t>(input.replicas) * input.micro_batches, 0);
  for (size_t i = 0; i < amount.size(); ++i)
    sums[part.arrival_replica[i] * input.micro_batches + part.arrival_micro_batch[i]] += amount[i];
  return *std::ranges::max_element(sums);
}

// What the arrival needs, and sometimes up to half more.
int64_t draw_limit(Random& random, int64_t needed) {
  return std::max<int64_t>(1,
                           random.uniform() < 0.4 ? needed : static_cast<int64_t>(needed * (1 + random.uniform() / 2)));
}

void add_atom(BalancePart& part, uint64_t sample, double seconds, int64_t rows, int64_t bytes, int32_t slot,
              int32_t micro_batches) {
  part.sample.push_back(sample);
  part.seconds.push_back(seconds);
  part.rows.push_back(rows);
  part.bytes.push_back(bytes);
  part.arrival_replica.push_back(slot / micro_batches);
  part.arrival_micro_batch.push_back(slot % micro_batches);
}

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names = {"none", "longest_first", "karmarkar_karp", "minimax"};
  return names;
}

Policy make_policy(const std::string& id, const std::string& options_json) {
  static PluginSet plugins({std::string(LF_BUILD_DIR) + "/plugins"}, PluginHost{}, false);
  return Policy(id, plugins.load(PluginKind::kBalancer, id).interface<lf_balancer_api>(LF_BALANCER_INTERFACE), nullptr,
                options_json);
}

BalanceInput draw_problem(Random& random, const Drawn& drawn) {
  BalanceInput input;
  input.step = static_cast<int64_t>(random.below(1000));
  input.objective = static_cast<int32_t>(1 + random.below(4));
  input.replicas = static_cast<int32_t>(1 + random.below(drawn.most_replicas));
  input.micro_batches = static_cast<int32_t>(1 + random.below(drawn.most_micro_batches));
  const int32_t slots = input.replicas * input.micro_batches;
  input.n_samples = random.below(static_cast<uint64_t>(slots) * drawn.most_samples_per_slot + 1);
  if (random.uniform() < 0.3)
    for (int32_t r = 0; r < input.replicas; ++r) input.speed.push_back(random.uniform() < 0.2 ? 1.0 / 3 : 1);
  if (random.uniform() < 0.3) input.fixed_seconds = random.uniform();

  const std::vector<int32_t> slot = draw_arrival(random, input.n_samples, slots);
  const auto kind = static_cast<int>(random.below(5));
  BalancePart vision, language;
  vision.name = "vision";
  vision.tied = random.uniform() < 0.5;
  language.name = "language";
  for (uint64_t i = 0; i < input.n_samples; ++i) {
    const double seconds = draw_seconds(random, kind);
    const int64_t rows = 1 + static_cast<int64_t>(seconds * 100) + static_cast<int64_t>(random.below(50));
    add_atom(language, i, seconds, rows, rows * static_cast<int64_t>(1 + random.below(9)), slot[i],
             input.micro_batches);
    for (uint64_t atoms = random.below(4); atoms > 0; --atoms)
      add_atom(vision, i, draw_seconds(random, kind), static_cast<int64_t>(random.below(100)), 0, slot[i],
               input.micro_batches);
  }
  if (input.n_samples > 0) {
    if (random.uniform() < 0.8) language.row_limit = draw_limit(random, largest_slot(input, language, language.rows));
    if (random.uniform() < 0.3) language.byte_limit = draw_limit(random, largest_slot(input, language, language.bytes));
    if (random.uniform() < 0.3) vision.row_limit = draw_limit(random, largest_slot(input, vision, vision.rows));
  }
  if (random.uniform() < 0.5) input.parts.push_back(std::move(vision));
  input.parts.push_back(std::move(language));
  return input;
}

BalanceInput plain_problem(int32_t replicas, int32_t micro_batches, std::vector<double> seconds,
                           std::vector<int64_t> rows) {
  BalanceInput input;
  input.objective = LF_OBJECTIVE_MAKESPAN;
  input.replicas = replicas;
  input.micro_batches = micro_batches;
  input.n_samples = seconds.size();
  BalancePart part;
  part.name = "language";
  rows.resize(seconds.size(), 1);
  for (size_t i = 0; i < seconds.size(); ++i) add_atom(part, i, seconds[i], rows[i], 0, 0, micro_batches);
  input.parts.push_back(std::move(part));
  return input;
}

double best_by_trying_all(const BalanceInput& input) {
  const int32_t slots = input.replicas * input.micro_batches;
  std::vector<int32_t> slot(input.n_samples, 0);
  double best = std::numeric_limits<double>::infinity();
  for (;;) {
    std::vector<lf_assignment> places;
    for (const BalancePart& part : input.parts) {
      std::vector<int32_t> count(slots, 0);
      for (const uint64_t sample : part.sample)
        places.push_back(
            {slot[sample] / input.micro_batches, slot[sample] % input.micro_batches, count[slot[sample]]++, 0});
    }
    try {
      validate_plan("all", input, places);
      best = std::min(best, objective_seconds(input, places));
    } catch (const Error&) {  // this one breaks a promise
    }
    size_t digit = 0;
    while (digit < slot.size() && ++slot[digit] == slots) slot[digit++] = 0;
    if (digit == slot.size()) return best;
  }
}

}  // namespace lf
