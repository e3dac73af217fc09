#include "pi05/flow_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "family/draws.h"

namespace lf::pi05 {
namespace {

TEST(FlowTime, is_distributed_as_beta_of_three_halves_and_one) {
  const Pi05Config config;
  std::vector<double> times;
  for (uint64_t sample = 0; sample < 20000; ++sample)
    times.push_back(double{flow_time(config, family::Draws(3, sample, 0).uniform(kTime))});
  std::sort(times.begin(), times.end());
  EXPECT_GE(times.front(), 0.001f);
  EXPECT_LE(times.back(), 1.0f);
  // Kolmogorov and Smirnov: F(t) = ((t - 0.001) / 0.999)^1.5, further off than this once in 10,000 seeds.
  double furthest = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const double expected = std::pow((times[i] - 0.001) / 0.999, 1.5);
    furthest =
        std::max(furthest, std::abs(expected - (static_cast<double>(i) + 0.5) / static_cast<double>(times.size())));
  }
  EXPECT_LT(furthest, 2.2 / std::sqrt(static_cast<double>(times.size())));
}

TEST(FlowTime, follows_the_configs_distribution) {
  Pi05Config config;
  config.time_alpha = 1;
  config.time_beta = 2;
  config.time_scale = 0.5;
  config.time_offset = 0.25;
  EXPECT_FLOAT_EQ(flow_time(config, 0.75), 0.5f * 0.5f + 0.25f);  // 1 - sqrt(1 - 0.75)
  EXPECT_FLOAT_EQ(flow_time(config, 0), 0.25f);
}

}  // namespace
}  // namespace lf::pi05
