#include "reduction/buckets.h"

#include <random>

#include <gtest/gtest.h>

TEST(buckets, every_element_of_every_unit_is_in_exactly_one_bucket_that_waits_for_the_unit) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    // Units of two buffers in memory order, then reversed as backward completes them.
    std::vector<lf::GradientUnit> units;
    int64_t sizes[2] = {0, 0};
    for (size_t i = 0, n = random() % 20; i < n; ++i) {
      const uint32_t buffer = i < n / 2 ? 0 : 1;
      const int64_t gap = random() % 4 == 0 ? 5 : 0, length = random() % 3 == 0 ? 0 : random() % 50;
      units.push_back({buffer, sizes[buffer] + gap, length});
      sizes[buffer] += gap + length;
    }
    std::reverse(units.begin(), units.end());
    const int64_t limit = 1 + random() % 60;
    const auto buckets = lf::cut_into_buckets(units, limit);

    std::vector<std::vector<int>> owner{std::vector<int>(sizes[0], -1), std::vector<int>(sizes[1], -1)};
    uint32_t needed_before = 0;
    for (size_t b = 0; b < buckets.size(); ++b) {
      EXPECT_GT(buckets[b].length, 0);
      EXPECT_LE(buckets[b].length, limit);
      EXPECT_GE(buckets[b].units_needed, needed_before) << "a later bucket is ready earlier";
      needed_before = buckets[b].units_needed;
      for (int64_t i = 0; i < buckets[b].length; ++i) {
        int& mine = owner[buckets[b].buffer][static_cast<size_t>(buckets[b].offset + i)];
        EXPECT_EQ(mine, -1);
        mine = static_cast<int>(b);
      }
    }
    for (uint32_t u = 0; u < units.size(); ++u) {
      for (int64_t i = 0; i < units[u].length; ++i) {
        int& mine = owner[units[u].buffer][static_cast<size_t>(units[u].offset + i)];
        ASSERT_GE(mine, 0);
        EXPECT_GT(buckets[static_cast<size_t>(mine)].units_needed, u);
        mine = -1;
      }
    }
    for (const auto& rest : owner) {
      for (int bucket : rest) EXPECT_EQ(bucket, -1) << "a bucket holds what is no unit's";
    }
  }
}

TEST(buckets, small_neighbours_share_one) {
  const std::vector<lf::GradientUnit> units{{0, 90, 10}, {0, 60, 30}, {0, 0, 60}, {1, 0, 10}};
  const auto buckets = lf::cut_into_buckets(units, 50);
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[0].offset, 60);
  EXPECT_EQ(buckets[0].length, 40);
  EXPECT_EQ(buckets[0].units_needed, 2u);
  EXPECT_EQ(buckets[1].length + buckets[2].length, 60);
  EXPECT_EQ(buckets[3].buffer, 1u);
}
