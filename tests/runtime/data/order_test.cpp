#include "data/order.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace lf {
namespace {

std::vector<uint64_t> epoch_of(const Order& order, uint64_t epoch) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < order.size(); ++i) out.push_back(order.at(epoch * order.size() + i));
  return out;
}

TEST(Order, every_epoch_is_a_permutation_for_any_size) {
  std::vector<uint64_t> sizes(300);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const uint64_t size : {1000u, 1023u, 1024u, 1025u, 65'537u, 100'000u}) sizes.push_back(size);
  for (const uint64_t size : sizes) {
    const Order order(size, 7, true);
    for (const uint64_t epoch : {0u, 1u, 9u}) {
      std::vector<uint64_t> seen = epoch_of(order, epoch);
      std::sort(seen.begin(), seen.end());
      for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(seen[i], i) << "size " << size << " epoch " << epoch;
    }
  }
}

TEST(Order, it_depends_on_the_seed_and_the_epoch_alone) {
  const Order one(1000, 1, true), same(1000, 1, true), other(1000, 2, true);
  EXPECT_EQ(epoch_of(one, 3), epoch_of(same, 3));
  EXPECT_NE(epoch_of(one, 3), epoch_of(other, 3));
  EXPECT_NE(epoch_of(one, 3), epoch_of(one, 4));
}

TEST(Order, without_shuffle_it_repeats_the_data_sets_own) {
  const Order order(5, 1, false);
  for (uint64_t i = 0; i < 12; ++i) EXPECT_EQ(order.at(i), i % 5);
  EXPECT_EQ(order.epoch(11), 2u);
}

// All 24 orders of four samples over 24000 epochs: chi-square with 23 degrees of freedom exceeds 49.7 once in a
// thousand for a fair shuffle.
TEST(Order, all_orders_of_a_small_set_are_equally_likely) {
  const Order order(4, 11, true);
  std::map<std::vector<uint64_t>, int> counts;
  for (uint64_t epoch = 0; epoch < 24'000; ++epoch) ++counts[epoch_of(order, epoch)];
  ASSERT_EQ(counts.size(), 24u);
  double chi = 0;
  for (const auto& [ignored, count] : counts) chi += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi, 49.7);
}

// Where position i goes, over positions and places cut into 16 x 16 cells: 225 degrees of freedom, 99.9% below 295.
TEST(Order, a_large_set_is_well_mixed) {
  constexpr uint64_t kSize = 1 << 17;
  const std::vector<uint64_t> seen = epoch_of(Order(kSize, 3, true), 0);
  std::array<std::array<double, 16>, 16> cells{};
  for (uint64_t i = 0; i < kSize; ++i) ++cells[i * 16 / kSize][seen[i] * 16 / kSize];
  double chi = 0;
  const double expected = kSize / 256.0;
  for (const auto& row : cells)
    for (const double count : row) chi += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi, 295);
}

TEST(Order, neighbours_are_no_longer_neighbours) {
  constexpr uint64_t kSize = 100'000;
  const std::vector<uint64_t> seen = epoch_of(Order(kSize, 3, true), 0);
  double mean = 0, rises = 0;
  int close = 0;
  for (uint64_t i = 0; i + 1 < kSize; ++i) {
    const double step = static_cast<double>(seen[i + 1]) - static_cast<double>(seen[i]);
    mean += std::abs(step) / static_cast<double>(kSize);
    rises += step > 0;
    close += std::abs(step) <= 1;
  }
  EXPECT_NEAR(mean, kSize / 3.0, kSize / 3.0 * 0.02);  // of two random places: a third
  EXPECT_NEAR(rises / kSize, 0.5, 0.01);
  EXPECT_LE(close, 12);  // two are expected
}

TEST(Order, any_position_of_a_huge_set_is_reached_directly) {
  constexpr uint64_t kSize = uint64_t{1} << 40;
  const Order order(kSize, 5, true);
  EXPECT_LT(order.at(kSize * 1000 + 123'456'789), kSize);
  EXPECT_NE(order.at(0), order.at(1));
}

}  // namespace
}  // namespace lf
