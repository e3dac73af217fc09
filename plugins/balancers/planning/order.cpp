#include "planning/order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace lf::planning {
namespace {

constexpr int kDigitBits = 11;
constexpr uint32_t kDigits = 1u << kDigitBits;

struct Entry {
  uint32_t key, index;  // key: complemented, so that ascending order puts the heaviest first
};

}  // namespace

std::vector<uint32_t> heaviest_first(std::span<const int64_t> keys, std::span<const uint32_t> chosen) {
  int64_t largest = 0;
  for (const uint32_t i : chosen) largest = std::max(largest, keys[i]);
  const int bits = std::bit_width(static_cast<uint64_t>(largest));
  const int shift = std::max(0, bits - 2 * kDigitBits);

  std::vector<Entry> entries(chosen.size()), sorted(chosen.size());
  std::array<uint32_t, kDigits> low{}, high{};
  for (size_t i = 0; i < chosen.size(); ++i) {
    const uint32_t key = (kDigits * kDigits - 1) - static_cast<uint32_t>(keys[chosen[i]] >> shift);
    entries[i] = {key, chosen[i]};
    ++low[key % kDigits];
    ++high[key / kDigits];
  }
  std::exclusive_scan(low.begin(), low.end(), low.begin(), 0u);
  std::exclusive_scan(high.begin(), high.end(), high.begin(), 0u);
  for (const Entry& entry : entries) sorted[low[entry.key % kDigits]++] = entry;
  std::vector<uint32_t> order(chosen.size());
  for (const Entry& entry : sorted) order[high[entry.key / kDigits]++] = entry.index;
  return order;
}

std::vector<uint32_t> heaviest_first(std::span<const int64_t> keys) {
  std::vector<uint32_t> all(keys.size());
  std::iota(all.begin(), all.end(), 0u);
  return heaviest_first(keys, all);
}

}  // namespace lf::planning
