#include "planning/deal.h"

#include <queue>
#include <utility>

#include "planning/load_heap.h"

namespace lf::planning {
namespace {

constexpr size_t kAhead =
    8;                     // samples whose numbers are fetched early: in falling order they lie all over memory (-25%)
constexpr int kTries = 8;  // bins with room by the first limit and not by another, before a sample is left for later

int32_t roomiest_slot(const Packing& packing, int32_t first, int32_t width) {
  int32_t best = first;
  for (int32_t slot = first + 1; slot < first + width; ++slot)
    if (packing.room(slot) > packing.room(best)) best = slot;
  return best;
}

int32_t slot_that_fits(const Packing& packing, int32_t first, int32_t width, uint32_t sample) {
  for (int32_t slot = first; slot < first + width; ++slot)
    if (packing.fits(sample, slot)) return slot;
  return Packing::kNowhere;
}

int64_t slowed(const Dealing& dealing, int32_t bin, int64_t load) {
  if (dealing.slowness.empty()) return load;
  return static_cast<int64_t>(static_cast<double>(load) * dealing.slowness[bin]);
}

}  // namespace

void deal(Packing& packing, const Dealing& dealing, std::span<const uint32_t> order, std::vector<int64_t>& load,
          std::vector<uint32_t>& left) {
  // With unequal speeds what counts is when a bin would be done *with* the next sample. Its weight is taken as that of
  // the sample for which the heap was last built; the heap is built anew whenever weights have halved.
  int64_t ahead = 0;
  const auto key = [&](int32_t bin) { return slowed(dealing, bin, load[bin] + ahead); };
  LoadHeap heap;
  const auto build = [&] {
    heap.clear();
    for (int32_t bin = 0; bin < dealing.bins.count; ++bin) heap.push(key(bin), bin);
  };
  if (!dealing.slowness.empty() && !order.empty()) ahead = dealing.weight[order.front()];
  build();

  // Bins without room for the current sample, the roomiest on top: they come back for smaller ones.
  std::priority_queue<std::pair<int64_t, int32_t>> parked;
  std::vector<int32_t> passed;
  for (size_t next = 0; next < order.size(); ++next) {
    if (next + kAhead < order.size()) packing.fetch(order[next + kAhead], dealing.weight);
    const uint32_t sample = order[next];
    const int64_t weight = dealing.weight[sample];
    if (ahead > 0 && weight < ahead / 2) {
      ahead = weight;
      build();
      parked = {};
    }
    const int64_t amount = packing.problem().amounts(sample)[0];
    for (; !parked.empty() && parked.top().first >= amount; parked.pop()) {
      const int32_t bin = parked.top().second;
      heap.push(key(bin), bin);
    }
    int32_t slot = Packing::kNowhere;
    passed.clear();
    while (!heap.empty() && static_cast<int>(passed.size()) < kTries) {
      const int32_t bin = heap.bin();
      const int64_t loaded = load[bin] + weight;
      if (slowed(dealing, bin, loaded) > dealing.level) {
        if (dealing.slowness.empty()) break;  // and so would every other be
      } else {
        const int32_t first = dealing.bins.first_slot + bin * dealing.bins.width;
        const int32_t roomiest = roomiest_slot(packing, first, dealing.bins.width);
        if (packing.room(roomiest) < amount) {
          parked.emplace(packing.room(roomiest), bin);
          heap.pop();
          continue;
        }
        slot = packing.fits(sample, roomiest) ? roomiest : slot_that_fits(packing, first, dealing.bins.width, sample);
      }
      if (slot != Packing::kNowhere) {
        packing.put(sample, slot);
        load[bin] = loaded;
        heap.replace(key(bin));
        break;
      }
      passed.push_back(bin);
      heap.pop();
    }
    for (const int32_t bin : passed) heap.push(key(bin), bin);
    if (slot == Packing::kNowhere) left.push_back(sample);
  }
}

}  // namespace lf::planning
