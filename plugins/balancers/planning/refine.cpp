#include "planning/refine.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace lf::planning {
namespace {

constexpr size_t kPartners = 12;      // least loaded bins tried in one step
constexpr ptrdiff_t kNeighbours = 4;  // samples tried on each side of the one of ideal weight
constexpr uint32_t kNone = ~0u;

struct Exchange {
  uint32_t give = kNone, take = kNone;  // take: kNone, or comes back in return
  int32_t to = 0;                       // bin
  int32_t slot = 0;                     // of `to`, where nothing is taken
  int64_t worse = 0;                    // time of the more loaded of the two bins afterwards
  int64_t moved = 0;                    // amount farther from its arrival
};

class Refiner {
 public:
  Refiner(Packing& packing, const Refining& refining)
      : packing_(packing),
        problem_(packing.problem()),
        how_(refining),
        load_(refining.bins.count, 0),
        members_(refining.bins.count) {
    const int32_t end = how_.bins.first_slot + how_.bins.count * how_.bins.width;
    for (uint32_t sample = 0; sample < problem_.n_samples; ++sample) {
      if (packing_.slot(sample) < how_.bins.first_slot || packing_.slot(sample) >= end) continue;
      load_[bin_of(sample)] += how_.weight[sample];
      members_[bin_of(sample)].push_back(sample);
    }
    for (const Guard& guard : how_.guards) {
      guarded_.emplace_back(how_.bins.count, 0);
      for (int32_t bin = 0; bin < how_.bins.count; ++bin)
        for (const uint32_t sample : members_[bin]) guarded_.back()[bin] += guard.weight[sample];
    }
    sorted_.assign(how_.bins.count, false);
    for (int32_t bin = 0; bin < how_.bins.count; ++bin) ranked_.emplace(time(bin, load_[bin]), bin);
  }

  int64_t run() {
    for (int32_t step = 0; step < how_.most_steps; ++step) {
      const auto [before, heaviest] = *ranked_.rbegin();
      if (before <= how_.target) break;
      sort_members(heaviest);
      Exchange best;
      best.worse = before;
      size_t tried = 0;
      for (auto partner = ranked_.begin(); partner != ranked_.end() && tried < kPartners; ++partner, ++tried) {
        if (partner->second == heaviest) break;  // it is the last
        sort_members(partner->second);
        consider_all(heaviest, partner->second, best, before);
        if (best.give != kNone && best.worse <= how_.target && !how_.thrifty) break;
      }
      if (best.give == kNone) break;
      apply(heaviest, best);
    }
    return ranked_.rbegin()->first;
  }

 private:
  int32_t bin_of(uint32_t sample) const { return (packing_.slot(sample) - how_.bins.first_slot) / how_.bins.width; }
  int64_t time(int32_t bin, int64_t load) const {
    return how_.slowness.empty() ? load : static_cast<int64_t>(static_cast<double>(load) * how_.slowness[bin]);
  }

  bool heavier(uint32_t a, uint32_t b) const {
    return how_.weight[a] != how_.weight[b] ? how_.weight[a] > how_.weight[b] : a < b;
  }
  // Members are sorted when first needed, and kept so.
  void sort_members(int32_t bin) {
    if (sorted_[bin]) return;
    std::ranges::sort(members_[bin], [this](uint32_t a, uint32_t b) { return heavier(a, b); });
    sorted_[bin] = true;
  }
  void add_member(int32_t bin, uint32_t sample) {
    auto& members = members_[bin];
    const auto place =
        std::ranges::lower_bound(members, sample, [this](uint32_t a, uint32_t b) { return heavier(a, b); });
    members.insert(place, sample);
  }
  void set_load(int32_t bin, int64_t load) {
    ranked_.erase({time(bin, load_[bin]), bin});
    load_[bin] = load;
    ranked_.emplace(time(bin, load), bin);
  }

  // Load that should go from one bin to the other so that both are done together.
  int64_t ideal(int32_t from, int32_t to) const {
    if (how_.slowness.empty()) return (load_[from] - load_[to]) / 2;
    const double a = how_.slowness[from], b = how_.slowness[to];
    return static_cast<int64_t>((static_cast<double>(load_[from]) * a - static_cast<double>(load_[to]) * b) / (a + b));
  }

  void consider_all(int32_t from, int32_t to, Exchange& best, int64_t before) const {
    const int64_t wanted = ideal(from, to);
    if (wanted <= 0) return;
    const std::vector<uint32_t>& takeable = members_[to];
    for (const uint32_t give : members_[from]) {
      const int64_t weight = how_.weight[give];
      if (weight < wanted / 8 && best.give != kNone && !how_.thrifty) break;  // lighter ones change little
      if (weight <= 2 * wanted) consider_move(from, to, give, best, before);
      const auto near = std::ranges::lower_bound(takeable, weight - wanted, std::greater<>{},
                                                 [&](uint32_t sample) { return how_.weight[sample]; });
      const auto begin = near - std::min<ptrdiff_t>(kNeighbours, near - takeable.begin());
      const auto end = near + std::min<ptrdiff_t>(kNeighbours, takeable.end() - near);
      for (auto take = begin; take != end; ++take) consider_swap(from, to, give, *take, best, before);
    }
  }

  void consider_swap(int32_t from, int32_t to, uint32_t give, uint32_t take, Exchange& best, int64_t before) const {
    const int64_t shift = how_.weight[give] - how_.weight[take];
    if (shift <= 0) return;
    Exchange one{give, take, to, packing_.slot(take), worse_after(from, to, shift), 0};
    if (how_.thrifty) one.moved = farther(give, packing_.slot(take)) + farther(take, packing_.slot(give));
    if (better(one, best, before) && packing_.fits_instead(take, give) && packing_.fits_instead(give, take) &&
        guards_allow(from, one))
      best = one;
  }

  void consider_move(int32_t from, int32_t to, uint32_t give, Exchange& best, int64_t before) const {
    if (packing_.count(packing_.slot(give)) < 2) return;
    Exchange one{give, kNone, to, 0, worse_after(from, to, how_.weight[give]), 0};
    const int32_t first = how_.bins.first_slot + to * how_.bins.width;
    one.slot = first;
    for (int32_t slot = first + 1; slot < first + how_.bins.width; ++slot)
      if (packing_.room(slot) > packing_.room(one.slot)) one.slot = slot;
    if (how_.thrifty) one.moved = farther(give, one.slot);
    if (better(one, best, before) && packing_.fits(give, one.slot) && guards_allow(from, one)) best = one;
  }

  int64_t worse_after(int32_t from, int32_t to, int64_t shift) const {
    return std::max(time(from, load_[from] - shift), time(to, load_[to] + shift));
  }

  bool guards_allow(int32_t from, const Exchange& one) const {
    for (size_t g = 0; g < guarded_.size(); ++g) {
      const int64_t shift = guarded_shift(g, one);
      if (time(one.to, guarded_[g][one.to] + shift) > how_.guards[g].most ||
          time(from, guarded_[g][from] - shift) > how_.guards[g].most)
        return false;
    }
    return true;
  }
  int64_t guarded_shift(size_t g, const Exchange& one) const {
    const auto& weight = how_.guards[g].weight;
    return weight[one.give] - (one.take == kNone ? 0 : weight[one.take]);
  }

  // Amount that would be away from its arrival and is not now; negative where it comes home.
  int64_t farther(uint32_t sample, int32_t slot) const {
    const int32_t home = problem_.arrival[sample] / problem_.micro_batches;
    const bool now = packing_.replica(sample) != home, then = slot / problem_.micro_batches != home;
    return (then - now) * problem_.amounts(sample)[0];
  }

  bool better(const Exchange& one, const Exchange& best, int64_t before) const {
    if (one.worse >= before) return false;
    if (best.give == kNone) return true;
    if (!how_.thrifty) return one.worse < best.worse;
    const bool reaches = one.worse <= how_.target, best_reaches = best.worse <= how_.target;
    if (reaches != best_reaches) return reaches;
    if (reaches) return one.moved != best.moved ? one.moved < best.moved : one.worse < best.worse;
    // gain / moved, compared without dividing; what moves nothing counts as moving one
    const double gain = static_cast<double>(before - one.worse) * static_cast<double>(std::max<int64_t>(1, best.moved));
    const double best_gain =
        static_cast<double>(before - best.worse) * static_cast<double>(std::max<int64_t>(1, one.moved));
    return gain > best_gain;
  }

  void apply(int32_t from, const Exchange& exchange) {
    const int32_t left = packing_.slot(exchange.give);
    int64_t shift = how_.weight[exchange.give];
    for (size_t g = 0; g < guarded_.size(); ++g) {
      guarded_[g][from] -= guarded_shift(g, exchange);
      guarded_[g][exchange.to] += guarded_shift(g, exchange);
    }
    std::erase(members_[from], exchange.give);
    packing_.take(exchange.give);
    if (exchange.take != kNone) {
      shift -= how_.weight[exchange.take];
      std::erase(members_[exchange.to], exchange.take);
      packing_.take(exchange.take);
      packing_.put(exchange.take, left);
      add_member(from, exchange.take);
    }
    packing_.put(exchange.give, exchange.slot);
    add_member(exchange.to, exchange.give);
    set_load(from, load_[from] - shift);
    set_load(exchange.to, load_[exchange.to] + shift);
  }

  Packing& packing_;
  const Problem& problem_;
  const Refining& how_;
  std::vector<int64_t> load_;                     // by bin
  std::vector<std::vector<int64_t>> guarded_;     // by guard, then bin
  std::vector<std::vector<uint32_t>> members_;    // by bin
  std::vector<bool> sorted_;                      // by bin
  std::set<std::pair<int64_t, int32_t>> ranked_;  // time, bin
};

}  // namespace

int64_t refine(Packing& packing, const Refining& refining) { return Refiner(packing, refining).run(); }

}  // namespace lf::planning
