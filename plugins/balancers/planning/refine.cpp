#include "planning/refine.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "planning/repack.h"

namespace lf::planning {
namespace {

constexpr size_t kPartners = 12;      // least loaded bins tried in one step
constexpr ptrdiff_t kNeighbours = 4;  // samples tried on each side of the one of ideal weight
constexpr size_t kBundleGifts = 8;    // samples tried against a bundle of lighter ones
constexpr int kRepacks = 256;         // micro-batches of a replica packed anew in one search
constexpr uint32_t kNone = ~0u;

struct Score {
  int64_t worse = 0;  // time of the more loaded of the two bins afterwards
  int64_t moved = 0;  // amount farther from its arrival
};

// One sample leaves the heaviest bin; none, one or several lighter ones come back.
struct Exchange {
  uint32_t give = kNone;
  std::vector<uint32_t> takes;
  int32_t to = 0;        // bin
  bool repacks = false;  // both bins are packed anew, since the slots do not fit as they are
  int32_t slot = 0;      // where `give` goes, unless it repacks; a single `take` then goes where `give` was
  Score score;
};

enum class Search { kDirect, kRepacking, kBundles, kEverywhere };

class Refiner {
 public:
  Refiner(Packing& packing, const Refining& refining)
      : packing_(packing),
        problem_(packing.problem()),
        how_(refining),
        load_(refining.bins.count, refining.base),
        members_(refining.bins.count),
        sorted_(refining.bins.count, false) {
    const int32_t end = how_.bins.first_slot + how_.bins.count * how_.bins.width;
    for (uint32_t sample = 0; sample < problem_.n_samples; ++sample) {
      if (packing_.slot(sample) < how_.bins.first_slot || packing_.slot(sample) >= end) continue;
      const int32_t bin = (packing_.slot(sample) - how_.bins.first_slot) / how_.bins.width;
      load_[bin] += how_.weight[sample];
      members_[bin].push_back(sample);
    }
    for (const Guard& guard : how_.guards) {
      guarded_.emplace_back(how_.bins.count, 0);
      for (int32_t bin = 0; bin < how_.bins.count; ++bin)
        for (const uint32_t sample : members_[bin]) guarded_.back()[bin] += guard.weight[sample];
    }
    for (int32_t bin = 0; bin < how_.bins.count; ++bin) ranked_.emplace(time(bin, load_[bin]), bin);
  }

  int64_t run() {
    for (int32_t step = 0; step < how_.most_steps; ++step) {
      const auto [before, heaviest] = *ranked_.rbegin();
      if (before <= how_.target) break;
      Exchange best;
      for (const Search search : {Search::kDirect, Search::kRepacking, Search::kBundles, Search::kEverywhere}) {
        best = find_exchange(heaviest, before, search);
        if (best.give != kNone) break;
      }
      if (best.give == kNone) break;
      apply(heaviest, best);
    }
    return ranked_.rbegin()->first;
  }

 private:
  int64_t time(int32_t bin, int64_t load) const {
    return how_.slowness.empty() ? load : static_cast<int64_t>(static_cast<double>(load) * how_.slowness[bin]);
  }
  int32_t first_slot(int32_t bin) const { return how_.bins.first_slot + bin * how_.bins.width; }

  // ---- the search -------------------------------------------------------------------------------------------------

  // The best exchange with one of the least loaded bins; with kEverywhere, the first good one beyond those.
  Exchange find_exchange(int32_t heaviest, int64_t before, Search search) {
    repacks_left_ = search == Search::kDirect ? 0 : kRepacks;
    before_ = before;
    sort_members(heaviest);
    Exchange best;
    size_t tried = 0;
    for (const auto& [partner_time, partner] : ranked_) {
      if (partner == heaviest) break;  // it is the last
      if (tried++ == kPartners && search != Search::kEverywhere) break;
      sort_members(partner);
      const int64_t wanted = ideal(heaviest, partner);
      if (wanted <= 0) break;
      search == Search::kBundles ? consider_bundles(heaviest, partner, wanted, best)
                                 : consider_singles(heaviest, partner, wanted, best);
      if (best.give == kNone) continue;
      if (tried >= kPartners || (best.score.worse <= how_.target && !how_.thrifty)) break;
    }
    return best;
  }

  // Load that should go from one bin to the other so that both are done together.
  int64_t ideal(int32_t from, int32_t to) const {
    if (how_.slowness.empty()) return (load_[from] - load_[to]) / 2;
    const double a = how_.slowness[from], b = how_.slowness[to];
    return static_cast<int64_t>((static_cast<double>(load_[from]) * a - static_cast<double>(load_[to]) * b) / (a + b));
  }

  void consider_singles(int32_t from, int32_t to, int64_t wanted, Exchange& best) {
    const std::vector<uint32_t>& takeable = members_[to];
    for (const uint32_t give : members_[from]) {
      const int64_t weight = how_.weight[give];
      if (weight < wanted / 8 && best.give != kNone && !how_.thrifty) break;  // lighter ones change little
      if (weight <= 2 * wanted) consider(from, to, give, {}, best);
      const auto near = std::ranges::lower_bound(takeable, weight - wanted, std::greater<>{},
                                                 [&](uint32_t sample) { return how_.weight[sample]; });
      const auto begin = near - std::min<ptrdiff_t>(kNeighbours, near - takeable.begin());
      const auto end = near + std::min<ptrdiff_t>(kNeighbours, takeable.end() - near);
      for (auto take = begin; take != end; ++take) consider(from, to, give, {&*take, 1}, best);
    }
  }

  // A heavy sample against several light ones: where bins are full of samples whose cost for their size differs, no
  // single one can go without another of its size coming back.
  void consider_bundles(int32_t from, int32_t to, int64_t wanted, Exchange& best) {
    const size_t gifts = std::min(kBundleGifts, members_[from].size());
    for (size_t g = 0; g < gifts; ++g) {
      const uint32_t give = members_[from][g];
      const int64_t most = problem_.amounts(give)[0] + room(from);
      int64_t weight = 0, amount = 0;
      bundle_.clear();
      for (auto take = members_[to].rbegin(); take != members_[to].rend(); ++take) {
        weight += how_.weight[*take];
        amount += problem_.amounts(*take)[0];
        if (weight > how_.weight[give] - wanted || amount > most) break;
        bundle_.push_back(*take);
      }
      if (bundle_.size() > 1 && bundle_.size() < members_[to].size()) consider(from, to, give, bundle_, best);
      consider_making_room(from, to, give, best);
    }
  }

  // As few light samples as leave room for the heavy one, where the bin that takes it is full: what it does not gain in
  // work it gains in rows, and rows of light samples are the cheapest.
  void consider_making_room(int32_t from, int32_t to, uint32_t give, Exchange& best) {
    int64_t weight = 0, missing = problem_.amounts(give)[0] - room(to);
    if (missing <= 0) return;
    bundle_.clear();
    for (auto take = members_[to].rbegin(); take != members_[to].rend() && missing > 0; ++take) {
      weight += how_.weight[*take];
      missing -= problem_.amounts(*take)[0];
      if (weight >= how_.weight[give]) return;
      bundle_.push_back(*take);
    }
    if (missing <= 0 && bundle_.size() < members_[to].size()) consider(from, to, give, bundle_, best);
  }

  void consider(int32_t from, int32_t to, uint32_t give, std::span<const uint32_t> takes, Exchange& best) {
    const int64_t shift = shifted(how_.weight, give, takes);
    if (shift <= 0) return;
    Score score{std::max(time(from, load_[from] - shift), time(to, load_[to] + shift)), 0};
    if (how_.thrifty) score.moved = farther(from, to, give, takes);
    if (!better(score, best) || !guards_allow(from, to, give, takes)) return;
    if (const int32_t slot = direct_slot(to, give, takes); slot != Packing::kNowhere)
      best = {give, {takes.begin(), takes.end()}, to, false, slot, score};
    else if (fits_anew(from, {&give, 1}, takes) && fits_anew(to, takes, {&give, 1}))
      best = {give, {takes.begin(), takes.end()}, to, true, 0, score};
  }

  // Where `give` goes if at most one sample comes back and all other samples of the two bins stay in their slots.
  int32_t direct_slot(int32_t to, uint32_t give, std::span<const uint32_t> takes) const {
    if (takes.size() == 1)
      return packing_.fits_instead(takes[0], give) && packing_.fits_instead(give, takes[0]) ? packing_.slot(takes[0])
                                                                                            : Packing::kNowhere;
    if (!takes.empty() || packing_.count(packing_.slot(give)) < 2) return Packing::kNowhere;
    int32_t roomiest = first_slot(to);
    for (int32_t slot = roomiest + 1; slot < first_slot(to) + how_.bins.width; ++slot)
      if (packing_.room(slot) > packing_.room(roomiest)) roomiest = slot;
    return packing_.fits(give, roomiest) ? roomiest : Packing::kNowhere;
  }

  int64_t room(int32_t bin) const {  // by the first limit, over all its slots
    int64_t sum = 0;
    for (int32_t slot = first_slot(bin); slot < first_slot(bin) + how_.bins.width; ++slot) sum += packing_.room(slot);
    return sum;
  }

  // Whether the bin's samples without `out` and with `in` fit in some other way than they are packed now.
  bool fits_anew(int32_t bin, std::span<const uint32_t> out, std::span<const uint32_t> in) {
    if (repacks_left_ <= 0) return false;
    int64_t left = room(bin);  // a quick no
    for (const uint32_t sample : in) left -= problem_.amounts(sample)[0];
    for (const uint32_t sample : out) left += problem_.amounts(sample)[0];
    if (left < 0) return false;
    --repacks_left_;
    scratch_.clear();
    for (const uint32_t sample : members_[bin])
      if (std::ranges::find(out, sample) == out.end()) scratch_.push_back(sample);
    scratch_.insert(scratch_.end(), in.begin(), in.end());
    if (scratch_.size() < static_cast<size_t>(how_.bins.width)) return false;  // a slot would be empty
    return repack(problem_, scratch_, how_.bins.width, scratch_slots_);
  }

  static int64_t shifted(std::span<const int64_t> weight, uint32_t give, std::span<const uint32_t> takes) {
    int64_t shift = weight[give];
    for (const uint32_t take : takes) shift -= weight[take];
    return shift;
  }

  bool guards_allow(int32_t from, int32_t to, uint32_t give, std::span<const uint32_t> takes) const {
    for (size_t g = 0; g < guarded_.size(); ++g) {
      const int64_t shift = shifted(how_.guards[g].weight, give, takes);
      if (time(to, guarded_[g][to] + shift) > how_.guards[g].most ||
          time(from, guarded_[g][from] - shift) > how_.guards[g].most)
        return false;
    }
    return true;
  }

  // Amount that would be away from its arrival and is not now; negative where more comes home.
  int64_t farther(int32_t from, int32_t to, uint32_t give, std::span<const uint32_t> takes) const {
    const auto leaving = [&](uint32_t sample, int32_t away, int32_t there) {
      const int32_t home = problem_.arrival[sample] / problem_.micro_batches;
      const int32_t now = first_slot(away) / problem_.micro_batches, then = first_slot(there) / problem_.micro_batches;
      return ((then != home) - (now != home)) * problem_.amounts(sample)[0];
    };
    int64_t sum = leaving(give, from, to);
    for (const uint32_t take : takes) sum += leaving(take, to, from);
    return sum;
  }

  bool better(const Score& one, const Exchange& best) const {
    if (one.worse >= before_) return false;
    if (best.give == kNone) return true;
    if (!how_.thrifty) return one.worse < best.score.worse;
    const bool reaches = one.worse <= how_.target, best_reaches = best.score.worse <= how_.target;
    if (reaches != best_reaches) return reaches;
    if (reaches) return one.moved != best.score.moved ? one.moved < best.score.moved : one.worse < best.score.worse;
    // gain / moved, compared without dividing; what moves nothing counts as moving one
    const auto gain = static_cast<double>(before_ - one.worse),
               best_gain = static_cast<double>(before_ - best.score.worse);
    return gain * price(best.score.moved) > best_gain * price(one.moved);
  }

  double price(int64_t moved) const {
    const auto amount = static_cast<double>(std::max<int64_t>(1, moved));
    return how_.thrift == 0 ? 1 : how_.thrift == 0.5 ? std::sqrt(amount) : how_.thrift == 2 ? amount * amount : amount;
  }

  // ---- its outcome ------------------------------------------------------------------------------------------------

  void apply(int32_t from, const Exchange& exchange) {
    const int32_t to = exchange.to;
    for (size_t g = 0; g < guarded_.size(); ++g) {
      const int64_t shift = shifted(how_.guards[g].weight, exchange.give, exchange.takes);
      guarded_[g][from] -= shift;
      guarded_[g][to] += shift;
    }
    const int64_t shift = shifted(how_.weight, exchange.give, exchange.takes);
    const int32_t left = packing_.slot(exchange.give);
    packing_.take(exchange.give);
    for (const uint32_t take : exchange.takes) {
      packing_.take(take);
      packing_.put(take, left);
      std::erase(members_[to], take);
      add_member(from, take);
    }
    packing_.put(exchange.give, exchange.repacks ? first_slot(to) : exchange.slot);
    std::erase(members_[from], exchange.give);
    add_member(to, exchange.give);
    if (exchange.repacks) {
      pack_anew(from);
      pack_anew(to);
    }
    set_load(from, load_[from] - shift);
    set_load(to, load_[to] + shift);
  }

  void pack_anew(int32_t bin) {
    for (const uint32_t sample : members_[bin]) packing_.take(sample);
    repack(problem_, members_[bin], how_.bins.width, scratch_slots_);
    for (size_t i = 0; i < members_[bin].size(); ++i)
      packing_.put(members_[bin][i], first_slot(bin) + scratch_slots_[i]);
  }

  void set_load(int32_t bin, int64_t load) {
    ranked_.erase({time(bin, load_[bin]), bin});
    load_[bin] = load;
    ranked_.emplace(time(bin, load), bin);
  }

  // Members are sorted when first needed, heaviest first, and kept so.
  bool heavier(uint32_t a, uint32_t b) const {
    return how_.weight[a] != how_.weight[b] ? how_.weight[a] > how_.weight[b] : a < b;
  }
  void sort_members(int32_t bin) {
    if (sorted_[bin]) return;
    std::ranges::sort(members_[bin], [this](uint32_t a, uint32_t b) { return heavier(a, b); });
    sorted_[bin] = true;
  }
  void add_member(int32_t bin, uint32_t sample) {
    auto& members = members_[bin];
    members.insert(std::ranges::lower_bound(members, sample, [this](uint32_t a, uint32_t b) { return heavier(a, b); }),
                   sample);
  }

  Packing& packing_;
  const Problem& problem_;
  const Refining& how_;
  std::vector<int64_t> load_;                     // by bin
  std::vector<std::vector<int64_t>> guarded_;     // by guard, then bin
  std::vector<std::vector<uint32_t>> members_;    // by bin
  std::vector<bool> sorted_;                      // by bin
  std::set<std::pair<int64_t, int32_t>> ranked_;  // time, bin

  int64_t before_ = 0;  // time of the heaviest bin in the search that is on
  int repacks_left_ = 0;
  std::vector<uint32_t> bundle_, scratch_;
  std::vector<int32_t> scratch_slots_;
};

}  // namespace

int64_t refine(Packing& packing, const Refining& refining) { return Refiner(packing, refining).run(); }

}  // namespace lf::planning
