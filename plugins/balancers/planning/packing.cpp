#include "planning/packing.h"

#include <algorithm>

namespace lf::planning {

Packing::Packing(const Problem& problem)
    : problem_(&problem),
      n_limits_(problem.n_limits),
      amount_(problem.amount.data()),
      slot_(problem.n_samples, kNowhere),
      count_(problem.slots, 0) {
  room_.reserve(static_cast<size_t>(problem.slots) * n_limits_);
  for (int32_t slot = 0; slot < problem.slots; ++slot)
    room_.insert(room_.end(), problem.limit.begin(), problem.limit.end());
}

bool Packing::within_limits() const {
  return std::ranges::all_of(room_, [](int64_t room) { return room >= 0; });
}

bool Packing::complete() const {
  if (!within_limits() || std::ranges::find(slot_, kNowhere) != slot_.end()) return false;
  return !problem_->fills_slots || slot_.size() < count_.size() || std::ranges::find(count_, 0) == count_.end();
}

Packing arrival_packing(const Problem& problem) {
  Packing packing(problem);
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample) packing.put(sample, problem.arrival[sample]);
  return packing;
}

std::vector<int64_t> slot_costs(const Packing& packing) {
  std::vector<int64_t> costs(packing.problem().slots, 0);
  for (uint32_t sample = 0; sample < packing.problem().n_samples; ++sample)
    costs[packing.slot(sample)] += packing.problem().cost[sample];
  return costs;
}

}  // namespace lf::planning
