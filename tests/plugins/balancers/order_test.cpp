#include "planning/order.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "balance/random.h"

namespace lf::planning {
namespace {

TEST(Order, it_is_that_of_a_stable_comparison_sort) {
  Random random(5);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int64_t> keys(random.below(3000));
    for (int64_t& key : keys) key = static_cast<int64_t>(random.below(1 << 22)) << random.below(2) * 18;
    if (trial % 2 == 0)
      for (int64_t& key : keys) key %= 100;  // many ties
    const int64_t largest = keys.empty() ? 0 : *std::ranges::max_element(keys);
    const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(largest))) - 22);
    std::vector<uint32_t> expected(keys.size());
    std::iota(expected.begin(), expected.end(), 0u);
    std::ranges::stable_sort(expected, [&](uint32_t a, uint32_t b) { return keys[a] >> shift > keys[b] >> shift; });
    EXPECT_EQ(heaviest_first(keys), expected);
  }
}

TEST(Order, keys_beyond_32_bits_keep_their_order) {
  EXPECT_EQ(heaviest_first(std::vector<int64_t>{int64_t{1} << 40, int64_t{3} << 60, 0, int64_t{1} << 60}),
            (std::vector<uint32_t>{1, 3, 0, 2}));
}

}  // namespace
}  // namespace lf::planning
