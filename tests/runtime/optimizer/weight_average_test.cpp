#include "optimizer/weight_average.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"

namespace {

std::vector<float> random_values(size_t n, uint32_t seed) {
  std::mt19937 dice(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(dice);
  return values;
}

// In the memory that the average looks at, as an optimizer updates it.
void overwrite(std::vector<float>& values, const std::vector<float>& with) {
  std::copy(with.begin(), with.end(), values.begin());
}

}  // namespace

// The recurrence, unrolled: d^n v_0 + (1 - d) Σ d^(n - k) v_k.
TEST(weight_average, is_the_geometric_series_of_the_values_from_where_they_began) {
  constexpr size_t kValues = 5;
  constexpr int kSteps = 12;
  constexpr double kDecay = 0.8;
  std::vector<std::vector<float>> history{random_values(kValues, 0)};
  std::vector<float> master = history[0];
  lf::WeightAverage average(master, 1);
  for (size_t i = 0; i < kValues; ++i) EXPECT_EQ(average.values()[i], master[i]);
  for (int step = 1; step <= kSteps; ++step) {
    history.push_back(random_values(kValues, static_cast<uint32_t>(step)));
    overwrite(master, history.back());
    average.update(kDecay);
  }
  for (size_t i = 0; i < kValues; ++i) {
    double expected = std::pow(kDecay, kSteps) * history[0][i];
    for (int k = 1; k <= kSteps; ++k)
      expected += (1 - kDecay) * std::pow(kDecay, kSteps - k) * history[static_cast<size_t>(k)][i];
    EXPECT_NEAR(average.values()[i], expected, 1e-6);  // a few roundings of numbers near 1
  }
}

TEST(weight_average, goes_on_from_what_was_written_into_it_with_the_same_bits) {
  std::vector<float> master = random_values(1000, 1);
  lf::WeightAverage straight(master, 1);
  overwrite(master, random_values(1000, 2));
  straight.update(0.99);
  lf::WeightAverage resumed(master, 1);
  std::copy(straight.values().begin(), straight.values().end(), resumed.values().begin());
  overwrite(master, random_values(1000, 3));
  straight.update(0.99);
  resumed.update(0.99);
  for (size_t i = 0; i < master.size(); ++i) ASSERT_EQ(straight.values()[i], resumed.values()[i]);
}

TEST(weight_average, has_the_same_bits_for_any_number_of_threads) {
  std::vector<float> master = random_values(200'001, 4);
  lf::WeightAverage one(master, 1), three(master, 3);
  for (uint32_t step = 5; step < 8; ++step) {
    overwrite(master, random_values(master.size(), step));
    one.update(0.9);
    three.update(0.9);
  }
  for (size_t i = 0; i < master.size(); ++i) ASSERT_EQ(one.values()[i], three.values()[i]) << i;
  EXPECT_EQ(one.bytes(), master.size() * sizeof(float));
}

TEST(weight_average, with_a_decay_of_0_is_the_value_itself) {
  std::vector<float> master = random_values(10, 1);
  lf::WeightAverage average(master, 1);
  overwrite(master, random_values(10, 2));
  average.update(0);
  for (size_t i = 0; i < master.size(); ++i) EXPECT_NEAR(average.values()[i], master[i], 1e-6);
}

TEST(weight_average, refuses_a_decay_that_never_takes_anything) {
  std::vector<float> master(3);
  EXPECT_THROW(lf::WeightAverage(master, 1).update(1), lf::Error);
}

// Recorded from diffusers 0.42.1: EMAModel([p], decay=d).get_decay(n + 1) for n = 0, 1, 2, 7, 99, 9999.
TEST(weight_average, with_warmup_has_the_decays_that_diffusers_has) {
  const std::vector<uint64_t> updates{0, 1, 2, 7, 99, 9999};
  for (const auto& [decay, expected] : std::vector<std::pair<double, std::vector<double>>>{
           {0.999, {0, 2.0 / 11, 0.25, 0.47058823529411764, 0.9174311926605505, 0.999}},
           {0.9, {0, 2.0 / 11, 0.25, 0.47058823529411764, 0.9, 0.9}}})
    for (size_t i = 0; i < updates.size(); ++i)
      EXPECT_DOUBLE_EQ(lf::average_decay({.decay = decay, .warmup = true}, updates[i]), expected[i]) << updates[i];
}

TEST(weight_average, without_warmup_always_has_the_decay_of_the_job) {
  for (const uint64_t updates : {0, 1, 1000}) EXPECT_EQ(lf::average_decay({.decay = 0.99}, updates), 0.99);
}
