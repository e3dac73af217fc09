#include "karmarkar_karp/differencing.h"

#include <numeric>

#include <gmock/gmock.h>

#include "balance/random.h"

namespace lf::planning {
namespace {

std::vector<int64_t> sums(const std::vector<int64_t>& weights, int32_t groups) {
  std::vector<int64_t> sum(groups, 0);
  const std::vector<int32_t> group = differenced(weights, groups);
  for (size_t i = 0; i < weights.size(); ++i) sum[group[i]] += weights[i];
  return sum;
}

TEST(Differencing, the_textbook_example_comes_out_as_in_the_textbook) {
  // Balanced: (8,7), (6,5), (4,0). 4|0 joins 8|7 to 11|8, that joins 6|5 to 16|14.
  EXPECT_THAT(sums({8, 7, 6, 5, 4}, 2), ::testing::UnorderedElementsAre(16, 14));
}

TEST(Differencing, groups_have_the_same_number_of_weights_up_to_one) {
  Random random(3);
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<int64_t> weights(random.below(200));
    for (int64_t& weight : weights) weight = static_cast<int64_t>(random.below(1'000'000));
    const auto groups = static_cast<int32_t>(1 + random.below(20));
    std::vector<size_t> count(groups, 0);
    for (const int32_t group : differenced(weights, groups)) ++count.at(group);
    for (const size_t n : count) {
      EXPECT_GE(n, weights.size() / groups);
      EXPECT_LE(n, (weights.size() + groups - 1) / groups);
    }
  }
}

TEST(Differencing, equal_weights_are_split_evenly) {
  EXPECT_THAT(sums(std::vector<int64_t>(12, 5), 4), ::testing::Each(15));
}

}  // namespace
}  // namespace lf::planning
