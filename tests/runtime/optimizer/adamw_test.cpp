#include "optimizer/adamw.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace {

// A flat buffer of a few parameters, each its own unit, with gaps between them.
struct Model {
  explicit Model(const std::vector<int64_t>& sizes, std::vector<bool> decays = {}, bool bf16 = false) {
    int64_t offset = 3;
    for (size_t i = 0; i < sizes.size(); ++i) {
      parameters.push_back(
          {"p" + std::to_string(i), offset, sizes[i], static_cast<uint32_t>(i), decays.empty() || decays[i]});
      offset += sizes[i] + 5;
    }
    master.assign(static_cast<size_t>(offset), 0.0f);
    gradients.assign(static_cast<size_t>(offset), 0.0f);
    if (bf16) compute.assign(static_cast<size_t>(offset), 0xabcd);
  }

  lf::AdamW optimizer(const lf::OptimizerSection& settings, int threads = 1) {
    return lf::AdamW({settings, master, gradients, compute.empty() ? nullptr : compute.data(), parameters, threads});
  }
  float& value(size_t p, int64_t i) { return master[static_cast<size_t>(parameters[p].offset + i)]; }
  float& gradient(size_t p, int64_t i) { return gradients[static_cast<size_t>(parameters[p].offset + i)]; }
  std::vector<uint8_t> all() const { return std::vector<uint8_t>(parameters.size(), 1); }

  std::vector<lf::OptimizedParameter> parameters;
  std::vector<float> master, gradients;
  std::vector<uint16_t> compute;
};

void fill(std::vector<float>& values, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
}

// A few units in the last place of numbers of this size: torch rounds after operations in another order.
void expect_close(float got, float expected) { EXPECT_NEAR(got, expected, 4e-7 * std::max(0.05f, std::abs(expected))); }

}  // namespace

TEST(adamw, follows_the_recorded_trajectory_of_torch_with_decay_groups_clipping_and_absent_gradients) {
  std::ifstream file(LF_SOURCE_DIR "/tests/runtime/optimizer/fixtures/adamw.json");
  const auto recorded = nlohmann::json::parse(file);
  const std::vector<int64_t> sizes = recorded.at("sizes");
  const std::vector<double> decays = recorded.at("decays");
  Model model(sizes, {decays[0] > 0, decays[1] > 0, decays[2] > 0});
  for (size_t p = 0; p < sizes.size(); ++p) {
    for (int64_t i = 0; i < sizes[p]; ++i) {
      model.value(p, i) = static_cast<float>((i * 37 + static_cast<int64_t>(p) * 17) % 101 - 50) / 64;
    }
  }
  lf::OptimizerSection settings;
  settings.clip_norm = recorded.at("clip_norm");
  auto optimizer = model.optimizer(settings);
  bool clipped = false, not_clipped = false;
  for (int64_t step = 0; step < static_cast<int64_t>(recorded.at("steps").size()); ++step) {
    auto present = model.all();
    std::fill(model.gradients.begin(), model.gradients.end(), 0.0f);
    for (const auto& pair : recorded.at("absent")) {
      if (pair[1] == step) present[pair[0].get<size_t>()] = 0;
    }
    for (size_t p = 0; p < sizes.size(); ++p) {
      for (int64_t i = 0; i < sizes[p] && present[p]; ++i) {
        model.gradient(p, i) = static_cast<float>((i * 29 + static_cast<int64_t>(p) * 13 + step * 7) % 89 - 44) / 128 *
                               static_cast<float>(1 + 7 * (step % 3));
      }
    }
    const auto stats = optimizer.step(1e-3 * static_cast<double>(step + 1), 1.0, present);
    (stats.clipped ? clipped : not_clipped) = true;
    const auto& expected = recorded.at("steps").at(static_cast<size_t>(step));
    EXPECT_NEAR(stats.grad_norm, expected.at("grad_norm"), 1e-6 * stats.grad_norm);
    for (size_t p = 0; p < sizes.size(); ++p) {
      for (int64_t i = 0; i < sizes[p]; ++i) {
        expect_close(model.value(p, i), expected.at("values").at(p).at(static_cast<size_t>(i)));
      }
    }
  }
  EXPECT_TRUE(clipped && not_clipped) << "the trajectory covers both";
  const auto state = optimizer.state();
  for (size_t p = 0; p < sizes.size(); ++p) {
    const auto& expected = recorded.at("state").at(p);
    EXPECT_EQ(*state[p].step, expected.at("step"));
    for (size_t i = 0; i < static_cast<size_t>(state[p].m.elements); ++i) {
      EXPECT_NEAR(state[p].m.host[i], expected.at("m").at(i), 1e-7);
      EXPECT_NEAR(state[p].v.host[i], expected.at("v").at(i), 1e-7);
    }
  }
}

TEST(adamw, gives_the_same_bits_for_any_number_of_threads) {
  std::vector<std::vector<float>> results;
  std::vector<double> norms;
  for (int threads : {1, 2, 5}) {
    Model model({200'000, 17, 65'536, 70'001});
    fill(model.master, 1);
    auto optimizer = model.optimizer(lf::OptimizerSection{}, threads);
    double norm = 0;
    for (uint32_t step = 0; step < 3; ++step) {
      fill(model.gradients, 100 + step);
      norm = optimizer.step(1e-3, 1.0, model.all()).grad_norm;
    }
    results.push_back(model.master);
    norms.push_back(norm);
  }
  for (size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(std::memcmp(results[i].data(), results[0].data(), results[0].size() * 4), 0);
    EXPECT_EQ(std::bit_cast<uint64_t>(norms[i]), std::bit_cast<uint64_t>(norms[0]));
  }
}

TEST(adamw, the_gradient_norm_is_exact_where_f32_sums_would_not_be) {
  Model model({300'000});
  for (int64_t i = 0; i < 300'000; ++i) model.gradient(0, i) = i == 0 ? 4096.0f : 0.25f;
  auto optimizer = model.optimizer(lf::OptimizerSection{});
  const double expected = std::sqrt(4096.0 * 4096.0 + 299'999 * 0.0625);
  EXPECT_DOUBLE_EQ(optimizer.step(0, 1.0, model.all()).grad_norm, expected);
}

TEST(adamw, writes_the_compute_copy_rounded_to_nearest_even_and_nothing_between_parameters) {
  Model model({1000, 40}, {}, true);
  fill(model.master, 2);
  fill(model.gradients, 3);
  auto optimizer = model.optimizer(lf::OptimizerSection{});
  optimizer.step(1e-2, 1.0, model.all());
  size_t inside = 0;
  for (const auto& parameter : model.parameters) {
    for (int64_t i = 0; i < parameter.elements; ++i, ++inside) {
      const auto at = static_cast<size_t>(parameter.offset + i);
      // The nearest of the two bf16 neighbours, computed in f64.
      const float low = std::bit_cast<float>(std::bit_cast<uint32_t>(model.master[at]) & 0xffff0000u);
      const float high = std::bit_cast<float>((std::bit_cast<uint32_t>(model.master[at]) & 0xffff0000u) + 0x10000u);
      const double to_low = std::abs(static_cast<double>(model.master[at]) - low);
      const double to_high = std::abs(static_cast<double>(high) - model.master[at]);
      const uint32_t low_bits = std::bit_cast<uint32_t>(low) >> 16, high_bits = std::bit_cast<uint32_t>(high) >> 16;
      const bool take_low = to_low < to_high || (to_low == to_high && low_bits % 2 == 0);
      EXPECT_EQ(model.compute[at], take_low ? low_bits : high_bits);
    }
  }
  EXPECT_EQ(static_cast<size_t>(std::count(model.compute.begin(), model.compute.end(), 0xabcd)),
            model.compute.size() - inside);
}

TEST(adamw, a_unit_without_gradient_is_left_alone_decay_and_step_count_included) {
  Model model({50, 60});
  fill(model.master, 4);
  fill(model.gradients, 5);
  auto optimizer = model.optimizer(lf::OptimizerSection{});
  const auto before = model.master;
  const auto only_first = optimizer.step(1e-2, 1.0, std::vector<uint8_t>{1, 0});
  double squares = 0;
  for (int64_t i = 0; i < 50; ++i) squares += std::pow(model.gradient(0, i), 2);
  EXPECT_NEAR(only_first.grad_norm, std::sqrt(squares), 1e-9);
  for (int64_t i = 0; i < 50; ++i)
    EXPECT_NE(model.value(0, i), before[static_cast<size_t>(model.parameters[0].offset + i)]);
  for (int64_t i = 0; i < 60; ++i)
    EXPECT_EQ(model.value(1, i), before[static_cast<size_t>(model.parameters[1].offset + i)]);
  EXPECT_EQ(*optimizer.state()[0].step, 1);
  EXPECT_EQ(*optimizer.state()[1].step, 0);
  const lf::FloatRange absent = optimizer.state()[1].m;
  EXPECT_THAT(std::vector<float>(absent.host, absent.host + absent.elements), ::testing::Each(0.0f));
}

TEST(adamw, a_step_that_is_not_finite_is_skipped_and_counted_and_a_good_one_ends_the_count) {
  Model model({100, 100});
  fill(model.master, 6);
  lf::OptimizerSection settings;
  settings.max_skipped = 4;
  auto optimizer = model.optimizer(settings);
  const auto before = model.master;
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    fill(model.gradients, 7);
    model.gradient(1, 42) = bad;
    EXPECT_TRUE(optimizer.step(1e-2, 1.0, model.all()).skipped);
  }
  fill(model.gradients, 8);
  EXPECT_TRUE(optimizer.step(1e-2, std::nan(""), model.all()).skipped) << "a loss that is not finite";
  EXPECT_EQ(model.master, before);
  EXPECT_EQ(optimizer.skipped_in_row(), 3);
  EXPECT_FALSE(optimizer.step(1e-2, 1.0, model.all()).skipped);
  EXPECT_EQ(optimizer.skipped_in_row(), 0);
  EXPECT_NE(model.master, before);
}

TEST(adamw, as_many_skipped_steps_in_a_row_or_the_stop_policy_end_the_run_and_name_the_parameter) {
  for (const char* policy : {"skip", "stop"}) {
    Model model({10, 10});
    lf::OptimizerSection settings;
    settings.on_nonfinite = policy;
    settings.max_skipped = 2;
    auto optimizer = model.optimizer(settings);
    model.gradient(1, 3) = std::nanf("");
    try {
      for (int i = 0; i < 3; ++i) optimizer.step(1e-3, 1.0, model.all());
      ADD_FAILURE() << "did not stop";
    } catch (const lf::Error& error) {
      EXPECT_EQ(error.exit(), lf::Exit::kBadData);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the gradient of p1"));
    }
    EXPECT_EQ(optimizer.skipped_in_row(), std::string(policy) == "stop" ? 1 : 2);
  }
}

TEST(adamw, a_restored_state_goes_on_bit_for_bit) {
  const auto run = [](bool interrupted) {
    Model model({5000, 100});
    fill(model.master, 9);
    auto optimizer = model.optimizer(lf::OptimizerSection{});
    const auto step = [&](lf::AdamW& with, uint32_t n) {
      fill(model.gradients, 20 + n);
      with.step(1e-3, 1.0, n % 2 == 0 ? std::vector<uint8_t>{1, 0} : model.all());
    };
    for (uint32_t n = 0; n < 3; ++n) step(optimizer, n);
    auto successor = model.optimizer(lf::OptimizerSection{});
    auto from = optimizer.state(), to = successor.state();
    for (size_t p = 0; p < from.size(); ++p) {
      to[p].m.write(0, {from[p].m.host, static_cast<size_t>(from[p].m.elements)});
      to[p].v.write(0, {from[p].v.host, static_cast<size_t>(from[p].v.elements)});
      *to[p].step = *from[p].step;
      EXPECT_EQ(to[p].parameter->name, "p" + std::to_string(p));
    }
    for (uint32_t n = 3; n < 6; ++n) step(interrupted ? successor : optimizer, n);
    return model.master;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(adamw, a_learning_rate_scale_moves_its_parameter_further) {
  Model model({1, 1});
  model.parameters[1].learning_rate_scale = 10;
  lf::OptimizerSection settings;
  settings.clip_norm = 0;
  settings.weight_decay = 0;
  model.gradient(0, 0) = model.gradient(1, 0) = 0.5f;
  model.optimizer(settings).step(1e-3, 1.0, model.all());
  EXPECT_NEAR(model.value(0, 0), -1e-3, 1e-9);  // the first step of Adam is the learning rate
  EXPECT_NEAR(model.value(1, 0), -1e-2, 1e-8);
}

TEST(adamw, a_count_moves_its_parameter_by_a_constant_step_and_enters_no_norm) {
  Model model({3, 2});
  model.parameters[0].sign_step = 0.25;
  for (const auto& [i, count] : {std::pair{0, 1e6f}, std::pair{1, -3.0f}, std::pair{2, 0.0f}})
    model.gradient(0, i) = count;
  model.gradient(1, 0) = 3;
  model.gradient(1, 1) = 4;
  lf::OptimizerSection settings;
  settings.weight_decay = 0.5;
  settings.clip_norm = 0;
  lf::AdamW optimizer = model.optimizer(settings);
  const lf::StepStats stats = optimizer.step(0.1, 1.0, model.all());
  EXPECT_DOUBLE_EQ(stats.grad_norm, 5);
  EXPECT_EQ(model.value(0, 0), -0.25f);
  EXPECT_EQ(model.value(0, 1), 0.25f);
  EXPECT_EQ(model.value(0, 2), 0.0f);
}
