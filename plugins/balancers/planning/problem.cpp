#include "planning/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::planning {
namespace {

constexpr double kTicksPerStep = 0x1p40;
constexpr int64_t kMostSlots = int64_t{1} << 20;  // what LoadHeap numbers
constexpr uint64_t kMostSamples = uint64_t{1} << 31;

bool moves_with_sample(const lf_balance_input& input, uint32_t part) {
  return input.parts[part].tied != 0 || part + 1 == input.n_parts;
}

struct Limit {
  const lf_balance_part* part;
  const int64_t* amounts;  // of the part's atoms
  int64_t limit;
  double use;  // share of all slots' room that the step's samples need
};

// Those that some slot could reach: a limit above the sum of everything never binds.
std::vector<Limit> reachable_limits(const lf_balance_input& input, int32_t slots) {
  std::vector<Limit> limits;
  for (uint32_t p = 0; p < input.n_parts; ++p) {
    const lf_balance_part& part = input.parts[p];
    if (!moves_with_sample(input, p)) continue;
    for (const auto& [amounts, limit] :
         {std::pair(part.rows, part.row_limit), std::pair(part.bytes, part.byte_limit)}) {
      if (limit <= 0) continue;
      const auto refused = [&](const std::string& what) {
        return sdk::Failure(LF_E_INVALID, "part " + std::string(sdk::view(part.name)) + ": " + what);
      };
      int64_t sum = 0, all_room = 0;
      for (uint64_t i = 0; i < part.n_atoms; ++i)
        if (amounts[i] < 0 || __builtin_add_overflow(sum, amounts[i], &sum))
          throw refused("expected rows and bytes of atoms from 0 on that add up to less than 2^63, got " +
                        std::to_string(amounts[i]) + " of atom " + std::to_string(i));
      if (sum <= limit) continue;
      // The room of many slots is added up, and what samples need of it.
      if (__builtin_mul_overflow(limit, int64_t{slots}, &all_room) || __builtin_add_overflow(all_room, sum, &all_room))
        throw refused("expected a limit that all micro-batches together keep below 2^63, got " + std::to_string(limit) +
                      " for " + std::to_string(slots) + " of them");
      limits.push_back({&part, amounts, limit, static_cast<double>(sum) / (static_cast<double>(limit) * slots)});
    }
  }
  std::ranges::stable_sort(limits, std::greater<>{}, &Limit::use);
  return limits;
}

}  // namespace

Problem make_problem(const lf_balance_input& input) {
  if (input.objective < LF_OBJECTIVE_MAKESPAN || input.objective > LF_OBJECTIVE_SUM)
    throw sdk::Failure(LF_E_INVALID, "objective " + std::to_string(input.objective) + " is not known to this policy");
  const lf_balance_part& last = input.parts[input.n_parts - 1];
  if (int64_t{last.replicas} * last.micro_batches > kMostSlots || input.n_samples > kMostSamples)
    throw sdk::Failure(LF_E_UNSUPPORTED, "a step of more than " + std::to_string(kMostSlots) + " micro-batches or " +
                                             std::to_string(kMostSamples) + " samples is not planned");
  Problem problem;
  problem.objective = input.objective;
  problem.replicas = last.replicas;
  problem.micro_batches = last.micro_batches;
  problem.slots = last.replicas * last.micro_batches;
  problem.n_samples = static_cast<uint32_t>(input.n_samples);

  double total = 0;
  for (uint32_t p = 0; p < input.n_parts; ++p)
    for (uint64_t i = 0; i < input.parts[p].n_atoms; ++i) {
      const double seconds = input.parts[p].seconds[i];
      if (!(seconds >= 0) || !std::isfinite(seconds))
        throw sdk::Failure(LF_E_INVALID, "part " + std::string(sdk::view(input.parts[p].name)) + ": the cost of atom " +
                                             std::to_string(i) + " is " + std::to_string(seconds) +
                                             " s; expected a finite number from 0 on");
      total += seconds;
    }
  if (last.speed != nullptr) total += input.fixed_seconds * problem.slots;
  const double ticks_per_second = total > 0 ? kTicksPerStep / total : 1;
  problem.tick_seconds = 1 / ticks_per_second;
  const auto ticks = [&](double seconds) { return static_cast<int64_t>(seconds * ticks_per_second + 0.5); };

  const bool staged = input.objective == LF_OBJECTIVE_TWO_STAGE && input.n_parts > 1;
  if (staged) problem.stage_cost.resize(input.n_parts);
  problem.cost.assign(input.n_samples, 0);
  for (uint32_t p = 0; p < input.n_parts; ++p) {
    const lf_balance_part& part = input.parts[p];
    if (!moves_with_sample(input, p)) {
      for (uint64_t i = 0; i < part.n_atoms; ++i) problem.total_untied += ticks(part.seconds[i]);
      continue;
    }
    for (uint64_t i = 0; i < part.n_atoms; ++i) problem.cost[part.sample[i]] += ticks(part.seconds[i]);
    if (staged) {
      problem.stage_cost[p].assign(input.n_samples, 0);
      for (uint64_t i = 0; i < part.n_atoms; ++i) problem.stage_cost[p][part.sample[i]] += ticks(part.seconds[i]);
    }
  }
  for (const int64_t cost : problem.cost) problem.total_cost += cost;

  const std::vector<Limit> limits = reachable_limits(input, problem.slots);
  problem.n_limits = static_cast<int32_t>(limits.size());
  problem.use = limits.empty() ? 0 : limits.front().use;
  problem.amount.assign(input.n_samples * limits.size(), 0);
  for (size_t l = 0; l < limits.size(); ++l) {
    problem.limit.push_back(limits[l].limit);
    for (uint64_t i = 0; i < limits[l].part->n_atoms; ++i)
      problem.amount[limits[l].part->sample[i] * limits.size() + l] += limits[l].amounts[i];
  }

  if (limits.empty()) {
    problem.n_limits = 1;
    problem.limit.push_back(problem.total_cost);
    problem.amount = problem.cost;
  }

  if (last.speed != nullptr) {
    const double fastest = *std::max_element(last.speed, last.speed + last.replicas);
    for (int32_t r = 0; r < last.replicas; ++r) problem.slowness.push_back(fastest / last.speed[r]);
    if (std::ranges::all_of(problem.slowness, [](double s) { return s == 1; })) problem.slowness.clear();
    if (!problem.slowness.empty()) problem.fixed = ticks(input.fixed_seconds);
  }
  problem.arrival.resize(input.n_samples);
  for (uint64_t i = 0; i < input.n_samples; ++i)
    problem.arrival[i] = last.arrival_replica[i] * last.micro_batches + last.arrival_micro_batch[i];
  return problem;
}

}  // namespace lf::planning
