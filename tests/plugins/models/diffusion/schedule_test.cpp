#include "diffusion/schedule.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "diffusion/options.h"
#include "diffusion/purposes.h"
#include "family/draws.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/diffusion/recorded.h"

namespace lf::diffusion {
namespace {

using family::Draws;

// What make_references.py took out of its own tables at the indices that it names.
void expect_recorded(const std::string& directory, const std::vector<NoiseLevel>& schedule,
                     const std::vector<int64_t>& indices, const std::string& prefix = "") {
  const Recorded recorded(directory);
  const std::vector<float> sigma = recorded.floats(prefix + "sigma"), time = recorded.floats(prefix + "timestep"),
                           weight = recorded.floats(prefix + "weight");
  ASSERT_EQ(sigma.size(), indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const NoiseLevel& level = schedule[static_cast<size_t>(indices[i])];
    EXPECT_NEAR(level.sigma, sigma[i], 2e-6);
    EXPECT_NEAR(level.time, time[i], 2e-3);
    EXPECT_NEAR(level.weight, weight[i], 2e-4);
  }
}

TEST(Schedule, of_wan_is_the_references) {
  const auto schedule = make_schedule({});
  expect_recorded("wan-tiny/main", schedule, {100, 731});
  expect_recorded("wan-tiny/ragged", schedule, {10}, "0.");
  expect_recorded("wan-tiny/ragged", schedule, {990}, "2.");
}

TEST(Schedule, of_qwen_image_is_the_references) {
  const auto schedule = make_schedule({.exponential = true});
  expect_recorded("qwen_image-tiny/main", schedule, {50, 612});
  expect_recorded("qwen_image-tiny/square", schedule, {999});
  EXPECT_NEAR(schedule.back().sigma, 0.02, 1e-7);
  EXPECT_EQ(schedule.front().sigma, 1);
}

TEST(Schedule, weighs_one_on_average_and_nothing_at_pure_noise) {
  double total = 0;
  for (const NoiseLevel& level : make_schedule({})) total += level.weight;
  EXPECT_NEAR(total / kLevels, 1, 1e-5);
  EXPECT_EQ(make_schedule({}).front().weight, 0);
  for (const NoiseLevel& level : make_schedule({.bell_weights = false})) EXPECT_EQ(level.weight, 1);
}

// In time, not in index: mixing the two ruins what the high-noise expert learns.
TEST(Boundary, is_a_time_and_cuts_the_levels_where_the_published_ranges_do) {
  const auto schedule = make_schedule({});
  EXPECT_EQ(high_noise(schedule, 0.9).begin, 0);
  EXPECT_EQ(high_noise(schedule, 0.9).end, 358);
  EXPECT_EQ(low_noise(schedule, 0.9).begin, 358);
  EXPECT_EQ(low_noise(schedule, 0.9).end, kLevels);
  EXPECT_EQ(high_noise(schedule, 0.875).end, 417);
  for (const double boundary : {0.9, 0.875}) {
    const LevelRange high = high_noise(schedule, boundary);
    EXPECT_GE(schedule[static_cast<size_t>(high.end - 1)].time, 1000 * boundary);
    EXPECT_LT(schedule[static_cast<size_t>(high.end)].time, 1000 * boundary);
  }
}

TEST(Draws, depend_on_seed_sample_epoch_and_purpose_only) {
  const Draws draws(7, 3, 1);
  EXPECT_EQ(draws.normal(Purpose::kNoise, 5), Draws(7, 3, 1).normal(Purpose::kNoise, 5));
  const std::vector<float> more = draws.normal(Purpose::kNoise, 8), few = draws.normal(Purpose::kNoise, 5);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), more.begin()));
  std::set<double> seen = {draws.uniform(Purpose::kLevel),          draws.uniform(Purpose::kTextDropout),
                           Draws(8, 3, 1).uniform(Purpose::kLevel), Draws(7, 4, 1).uniform(Purpose::kLevel),
                           Draws(7, 3, 2).uniform(Purpose::kLevel), Draws(3, 7, 1).uniform(Purpose::kLevel)};
  EXPECT_EQ(seen.size(), 6u);
}

TEST(Draws, have_the_moments_of_their_distributions) {
  const std::vector<float> normal = Draws(1, 2, 3).normal(Purpose::kNoise, 200000);
  double mean = 0, square = 0, fourth = 0;
  for (const float v : normal) {
    mean += v;
    square += double{v} * v;
    fourth += std::pow(double{v}, 4);
  }
  const auto n = static_cast<double>(normal.size());
  EXPECT_NEAR(mean / n, 0, 0.01);  // four standard errors
  EXPECT_NEAR(square / n, 1, 0.013);
  EXPECT_NEAR(fourth / n, 3, 0.1);
  double uniform = 0;
  for (uint64_t sample = 0; sample < 20000; ++sample) {
    const double u = Draws(1, sample, 0).uniform(Purpose::kLevel);
    ASSERT_TRUE(u >= 0 && u < 1);
    uniform += u;
  }
  EXPECT_NEAR(uniform / 20000, 0.5, 0.01);
}

DiffusionConfig wan() {
  DiffusionConfig config;
  config.architecture = Architecture::kWan;
  config.in_channels = 36;
  config.out_channels = 16;
  return config;
}

Options scheduled(std::string_view options, const DiffusionConfig& config) {
  return family::read_whole([&](family::Findings& findings) { return parse_options(options, config, findings); });
}

std::string refusal(const std::string& options, const DiffusionConfig& config) {
  try {
    scheduled(options, config);
  } catch (const sdk::Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(Options, of_an_expert_are_its_levels) {
  const Options high = scheduled(R"({"expert":"high_noise","boundary":0.9})", wan());
  EXPECT_EQ(high.levels.end, 358);
  const Options low = scheduled(R"({"expert":"low_noise","boundary":0.9})", wan());
  EXPECT_EQ(low.levels.begin, 358);
  EXPECT_EQ(scheduled("{}", wan()).text_length, 512);
}

TEST(Options, that_cannot_be_meant_are_refused_by_name) {
  EXPECT_NE(refusal(R"({"expert":"high_noise"})", wan()).find("model.options.boundary"), std::string::npos);
  EXPECT_NE(refusal(R"({"expert":"high_noise","boundary":2})", wan()).find("boundary"), std::string::npos);
  EXPECT_NE(refusal(R"({"first_frame":0.5})", wan()).find("first_frame"), std::string::npos);
  EXPECT_NE(refusal(R"({"text_dropout":0.1})", wan()).find("null_text"), std::string::npos);
  EXPECT_NE(refusal(R"({"mu":0.5})", wan()).find("mu"), std::string::npos);
  EXPECT_NE(refusal(R"({"guidance":3.5})", wan()).find("guidance"), std::string::npos);
  EXPECT_NE(refusal(R"({"levels":[5,5]})", wan()).find("levels"), std::string::npos);
  EXPECT_NE(refusal(R"({"sift":5})", wan()).find("no such option"), std::string::npos);
}

}  // namespace
}  // namespace lf::diffusion
