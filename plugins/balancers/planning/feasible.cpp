#include "planning/feasible.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lf/plugin_sdk/guard.hpp"
#include "planning/deal.h"
#include "planning/order.h"
#include "planning/repair.h"

namespace lf::planning {
namespace {

[[noreturn]] void refuse(const Problem& problem) {
  std::string limits;
  for (int32_t l = 0; l < problem.n_limits; ++l) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < problem.n_samples; ++i) sum += problem.amounts(i)[l];
    limits += (l > 0 ? " and " : "") + std::to_string(sum) + " under a limit of " + std::to_string(problem.limit[l]);
  }
  throw sdk::Failure(LF_E_INVALID, "no plan was found that keeps the limits: " + std::to_string(problem.n_samples) +
                                       " samples in " + std::to_string(problem.slots) + " micro-batches, " + limits +
                                       " each; raise data.max_tokens or take more micro-batches");
}

}  // namespace

Packing filled_by_size(const Problem& problem) {
  std::vector<int64_t> size(problem.n_samples);
  for (uint32_t i = 0; i < problem.n_samples; ++i) size[i] = problem.amounts(i)[0];
  Packing packing(problem);
  Dealing dealing;
  dealing.bins = {0, problem.slots, 1};
  dealing.weight = size;
  std::vector<int64_t> load(problem.slots, 0);
  std::vector<uint32_t> left;
  deal(packing, dealing, heaviest_first(size), load, left);
  repair(packing, std::move(left));
  return packing;
}

Packing mended_arrival(const Problem& problem) {
  Packing packing = arrival_packing(problem);
  std::vector<uint32_t> left;
  for (uint32_t sample = 0; sample < problem.n_samples; ++sample)
    if (packing.overfull(packing.slot(sample))) {
      packing.take(sample);
      left.push_back(sample);
    }
  repair(packing, std::move(left));
  return packing;
}

Packing feasible_packing(const Problem& problem) {
  Packing packing = filled_by_size(problem);
  if (!packing.complete()) packing = mended_arrival(problem);
  if (!packing.complete()) refuse(problem);
  return packing;
}

}  // namespace lf::planning
