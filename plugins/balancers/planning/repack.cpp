#include "planning/repack.h"

#include <algorithm>
#include <numeric>

namespace lf::planning {
namespace {

bool fill(const Problem& problem, std::span<const uint32_t> samples, std::span<const uint32_t> order, int32_t width,
          bool emptiest, std::vector<int32_t>& slots) {
  const auto limits = static_cast<size_t>(problem.n_limits);
  std::vector<int64_t> room;
  for (int32_t slot = 0; slot < width; ++slot) room.insert(room.end(), problem.limit.begin(), problem.limit.end());
  std::vector<int32_t> count(width, 0);
  for (const uint32_t i : order) {
    const std::span<const int64_t> amount = problem.amounts(samples[i]);
    int32_t best = Packing::kNowhere;
    for (int32_t slot = 0; slot < width; ++slot) {
      const auto left = std::span(room).subspan(slot * limits, limits);
      if (!std::ranges::equal(amount, left, std::ranges::less_equal{})) continue;
      if (best == Packing::kNowhere || (emptiest ? left[0] > room[best * limits] : left[0] < room[best * limits]))
        best = slot;
    }
    if (best == Packing::kNowhere) return false;
    for (size_t l = 0; l < limits; ++l) room[best * limits + l] -= amount[l];
    slots[i] = best;
    ++count[best];
  }
  return samples.size() < static_cast<size_t>(width) || std::ranges::find(count, 0) == count.end();
}

}  // namespace

bool repack(const Problem& problem, std::span<const uint32_t> samples, int32_t width, std::vector<int32_t>& slots) {
  std::vector<uint32_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto amount = [&](uint32_t i) { return problem.amounts(samples[i])[0]; };
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    return amount(a) != amount(b) ? amount(a) > amount(b) : samples[a] < samples[b];
  });
  slots.resize(samples.size());
  return fill(problem, samples, order, width, true, slots) || fill(problem, samples, order, width, false, slots);
}

}  // namespace lf::planning
