#include "planning/repair.h"

#include <algorithm>
#include <utility>

#include "planning/objective.h"
#include "planning/order.h"

namespace lf::planning {
namespace {

using Lists = std::vector<std::vector<uint32_t>>;  // samples by slot

Lists by_slot(const Packing& packing) {
  Lists lists(packing.problem().slots);
  for (uint32_t sample = 0; sample < packing.problem().n_samples; ++sample)
    if (packing.slot(sample) != Packing::kNowhere) lists[packing.slot(sample)].push_back(sample);
  return lists;
}

class Placer {
 public:
  explicit Placer(Packing& packing) : packing_(packing), problem_(packing.problem()), load_(problem_.replicas, 0) {
    for (uint32_t sample = 0; sample < problem_.n_samples; ++sample)
      if (packing_.slot(sample) != Packing::kNowhere) load_[packing_.replica(sample)] += problem_.cost[sample];
  }

  void place(uint32_t sample) {
    if (int32_t slot = least_loaded_that_fits(sample); slot != Packing::kNowhere)
      put(sample, slot);
    else
      exchange(sample);
  }

 private:
  int32_t least_loaded_that_fits(uint32_t sample) const {
    int32_t best = Packing::kNowhere;
    int64_t least = 0;
    for (int32_t slot = 0; slot < problem_.slots; ++slot) {
      if (!packing_.fits(sample, slot)) continue;
      const int32_t replica = slot / problem_.micro_batches;
      const int64_t time = time_on(problem_, replica, load_[replica] + problem_.cost[sample]);
      if (best == Packing::kNowhere || time < least) best = slot, least = time;
    }
    return best;
  }

  // A sample that is smaller by the first limit, in the slots with the most room, gives way.
  void exchange(uint32_t sample) {
    constexpr size_t kSlotsTried = 64;
    if (lists_.empty()) lists_ = by_slot(packing_);
    std::vector<int32_t> order(problem_.slots);
    for (int32_t slot = 0; slot < problem_.slots; ++slot) order[slot] = slot;
    const size_t tried = std::min(kSlotsTried, order.size());
    std::partial_sort(order.begin(), order.begin() + tried, order.end(), [&](int32_t a, int32_t b) {
      return packing_.room(a) != packing_.room(b) ? packing_.room(a) > packing_.room(b) : a < b;
    });
    for (size_t i = 0; i < tried; ++i)
      for (const uint32_t other : lists_[order[i]]) {
        if (packing_.slot(other) != order[i] || !packing_.fits_instead(sample, other)) continue;
        const int32_t refuge = least_loaded_that_fits(other);
        if (refuge == Packing::kNowhere || refuge == order[i]) continue;
        move_away(other, refuge);
        put(sample, order[i]);
        return;
      }
  }

  void put(uint32_t sample, int32_t slot) {
    packing_.put(sample, slot);
    load_[slot / problem_.micro_batches] += problem_.cost[sample];
    if (!lists_.empty()) lists_[slot].push_back(sample);
  }
  void move_away(uint32_t sample, int32_t slot) {
    std::erase(lists_[packing_.slot(sample)], sample);
    load_[packing_.replica(sample)] -= problem_.cost[sample];
    packing_.take(sample);
    put(sample, slot);
  }

  Packing& packing_;
  const Problem& problem_;
  std::vector<int64_t> load_;  // by replica
  Lists lists_;                // once needed
};

// The lightest samples that are not alone in their slot go to the empty ones.
void fill_empty_slots(Packing& packing) {
  const Problem& problem = packing.problem();
  int32_t empty = 0;
  while (empty < problem.slots && packing.count(empty) > 0) ++empty;
  if (empty == problem.slots) return;
  const std::vector<uint32_t> order = heaviest_first(problem.cost);
  for (auto sample = order.rbegin(); sample != order.rend() && empty < problem.slots; ++sample) {
    if (packing.slot(*sample) == Packing::kNowhere || packing.count(packing.slot(*sample)) < 2) continue;
    packing.take(*sample);
    packing.put(*sample, empty);
    while (empty < problem.slots && packing.count(empty) > 0) ++empty;
  }
}

}  // namespace

void place_left(Packing& packing, std::vector<uint32_t> left) {
  if (left.empty()) return;
  const Problem& problem = packing.problem();
  const auto amount = [&](uint32_t sample) { return problem.amounts(sample)[0]; };
  std::ranges::sort(left,
                    [&](uint32_t a, uint32_t b) { return amount(a) != amount(b) ? amount(a) > amount(b) : a < b; });
  Placer placer(packing);
  for (const uint32_t sample : left) placer.place(sample);
}

bool repair(Packing& packing, std::vector<uint32_t> left) {
  place_left(packing, std::move(left));
  const Problem& problem = packing.problem();
  if (problem.fills_slots && problem.n_samples >= static_cast<uint32_t>(problem.slots)) fill_empty_slots(packing);
  return packing.complete();
}

}  // namespace lf::planning
