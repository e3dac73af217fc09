#include "minimax/two_stage.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "planning/feasible.h"
#include "planning/objective.h"
#include "planning/order.h"
#include "planning/refine.h"
#include "planning/repair.h"

namespace lf::planning {
namespace {

using Stages = std::vector<const std::vector<int64_t>*>;

std::vector<int64_t> loads(const Packing& packing, const std::vector<int64_t>& cost) {
  std::vector<int64_t> load(packing.problem().replicas, 0);
  for (uint32_t i = 0; i < packing.problem().n_samples; ++i)
    if (packing.slot(i) != Packing::kNowhere) load[packing.replica(i)] += cost[i];
  return load;
}

int64_t slowest(const Packing& packing, const std::vector<int64_t>& cost) {
  const std::vector<int64_t> load = loads(packing, cost);
  int64_t most = 0;
  for (size_t r = 0; r < load.size(); ++r)
    most = std::max(most, time_on(packing.problem(), static_cast<int32_t>(r), load[r]));
  return most;
}

int64_t bound(const Problem& problem, const std::vector<int64_t>& cost) {
  int64_t sum = 0, heaviest = 0;
  for (const int64_t one : cost) sum += one, heaviest = std::max(heaviest, one);
  return std::max(static_cast<int64_t>(static_cast<double>(sum) / capacity(problem)), heaviest);
}

// Bins by the load of one part (and, for ties, a 64th of the later ones). Loads only grow, so an entry that is out of
// date is found too early, and is then put back where it belongs.
class StageHeap {
 public:
  explicit StageHeap(int32_t bins) {
    for (int32_t bin = 0; bin < bins; ++bin) entries_.emplace(0, bin);
  }
  template <typename Load>
  int32_t pop(const Load& load) {
    for (;;) {
      const auto [noted, bin] = entries_.top();
      const int64_t now = load(bin);
      entries_.pop();
      if (noted == now) return bin;
      entries_.emplace(now, bin);
    }
  }
  void push(int64_t load, int32_t bin) { entries_.emplace(load, bin); }
  bool empty() const { return entries_.empty(); }

 private:
  std::priority_queue<std::pair<int64_t, int32_t>, std::vector<std::pair<int64_t, int32_t>>, std::greater<>> entries_;
};

// Heaviest sample first, so that large ones find room; each to the replica with the least of that part's work where the
// sample first has some.
Packing dealt(const Problem& problem, const Stages& stages) {
  constexpr size_t kTries = 64;  // replicas without room, before a sample is left for the repair
  Packing packing(problem);
  std::vector<std::vector<int64_t>> load(stages.size(), std::vector<int64_t>(problem.replicas, 0));
  std::vector<StageHeap> heaps(stages.size(), StageHeap(problem.replicas));
  std::vector<uint32_t> left;
  std::vector<int32_t> passed;
  for (const uint32_t sample : heaviest_first(problem.cost)) {
    size_t s = 0;
    while (s + 1 < stages.size() && (*stages[s])[sample] == 0) ++s;
    const auto key = [&](int32_t bin) {
      int64_t sum = time_on(problem, bin, load[s][bin]);
      for (size_t later = s + 1; later < stages.size(); ++later) sum += time_on(problem, bin, load[later][bin]) / 64;
      return sum;
    };
    int32_t slot = Packing::kNowhere;
    passed.clear();
    while (slot == Packing::kNowhere && !heaps[s].empty() && passed.size() < kTries) {
      const int32_t bin = heaps[s].pop(key);
      passed.push_back(bin);
      for (int32_t k = 0; k < problem.micro_batches; ++k) {
        const int32_t one = bin * problem.micro_batches + k;
        if (packing.fits(sample, one) && (slot == Packing::kNowhere || packing.room(one) > packing.room(slot)))
          slot = one;
      }
    }
    if (slot == Packing::kNowhere) {
      left.push_back(sample);
    } else {
      packing.put(sample, slot);
      for (size_t each = 0; each < stages.size(); ++each) load[each][passed.back()] += (*stages[each])[sample];
    }
    for (const int32_t bin : passed) heaps[s].push(key(bin), bin);
  }
  if (!repair(packing, std::move(left))) packing = feasible_packing(problem);
  return packing;
}

}  // namespace

Packing plan_two_stage(const Problem& problem, double within) {
  constexpr int kRounds = 4;
  Stages stages;
  for (const std::vector<int64_t>& cost : problem.stage_cost)
    if (!cost.empty()) stages.push_back(&cost);
  Packing packing = dealt(problem, stages);
  for (int round = 0; round < kRounds; ++round) {
    const int64_t before = objective_of(packing);
    for (size_t s = 0; s < stages.size(); ++s) {
      std::vector<Guard> guards;
      for (size_t other = 0; other < stages.size(); ++other)
        if (other != s) guards.push_back({*stages[other], slowest(packing, *stages[other])});
      Refining refining;
      refining.bins = {0, problem.replicas, problem.micro_batches};
      refining.weight = *stages[s];
      refining.slowness = problem.slowness;
      refining.target = static_cast<int64_t>(static_cast<double>(bound(problem, *stages[s])) * (1 + within));
      refining.most_steps = 4 * problem.replicas;
      refining.guards = guards;
      refine(packing, refining);
    }
    if (objective_of(packing) == before) break;
  }
  return packing;
}

}  // namespace lf::planning
