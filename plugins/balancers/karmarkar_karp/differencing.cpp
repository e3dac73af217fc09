#include "karmarkar_karp/differencing.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "planning/order.h"

namespace lf::planning {
namespace {

constexpr uint32_t kEnd = ~0u;

// A set of weights, linked through `next`, and its sum.
struct Set {
  int64_t sum = 0;
  uint32_t first = kEnd, last = kEnd;
};

// n_groups sets by falling sum.
using Tuple = std::vector<Set>;

void append(Set& set, const Set& other, std::vector<uint32_t>& next) {
  set.sum += other.sum;
  if (other.first == kEnd) return;
  if (set.first == kEnd)
    set.first = other.first;
  else
    next[set.last] = other.first;
  set.last = other.last;
}

}  // namespace

std::vector<int32_t> differenced(std::span<const int64_t> weights, int32_t n_groups) {
  const auto k = static_cast<size_t>(n_groups);
  std::vector<uint32_t> next(weights.size(), kEnd);
  std::vector<Tuple> tuples;
  size_t filled = k;
  for (const uint32_t i : heaviest_first(weights)) {
    if (filled == k) tuples.emplace_back(k), filled = 0;
    tuples.back()[filled++] = {weights[i], i, i};
  }
  std::vector<int32_t> group(weights.size(), 0);
  if (tuples.empty()) return group;

  const auto spread = [](const Tuple& tuple) { return tuple.front().sum - tuple.back().sum; };
  std::priority_queue<std::tuple<int64_t, size_t>> widest;  // spread, tuple
  for (size_t t = 0; t < tuples.size(); ++t) widest.emplace(spread(tuples[t]), t);
  while (widest.size() > 1) {
    const size_t a = std::get<1>(widest.top());
    widest.pop();
    const size_t b = std::get<1>(widest.top());
    widest.pop();
    for (size_t i = 0; i < k; ++i) append(tuples[a][i], tuples[b][k - 1 - i], next);
    std::ranges::stable_sort(tuples[a], std::greater<>{}, &Set::sum);
    Tuple().swap(tuples[b]);
    widest.emplace(spread(tuples[a]), a);
  }
  const Tuple& last = tuples[std::get<1>(widest.top())];
  for (size_t g = 0; g < k; ++g)
    for (uint32_t i = last[g].first; i != kEnd; i = next[i]) group[i] = static_cast<int32_t>(g);
  return group;
}

}  // namespace lf::planning
