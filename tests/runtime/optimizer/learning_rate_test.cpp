#include "optimizer/learning_rate.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

TEST(learning_rate, equals_the_recorded_rates_of_transformers_schedules) {
  std::ifstream file(LF_SOURCE_DIR "/tests/runtime/optimizer/fixtures/schedules.json");
  const auto recorded = nlohmann::json::parse(file);
  const double peak = recorded.at("peak");
  ASSERT_EQ(recorded.at("cases").size(), 32u);
  for (const auto& one : recorded.at("cases")) {
    lf::ScheduleSection schedule;
    schedule.name = one.at("name");
    schedule.warmup_steps = one.at("warmup");
    schedule.final_fraction = one.at("final");
    schedule.decay_fraction = recorded.at("decay_fraction");
    const int64_t total = one.at("total");
    for (int64_t step = 0; step < total; ++step) {
      EXPECT_NEAR(lf::learning_rate(schedule, peak, total, step), one.at("rates").at(static_cast<size_t>(step)), 1e-16)
          << schedule.name << " warm-up " << schedule.warmup_steps << " of " << total << ", step " << step;
    }
  }
}

TEST(learning_rate, a_warmup_fraction_is_rounded_up_to_steps_and_warmup_steps_win) {
  lf::ScheduleSection schedule;
  schedule.warmup_fraction = 0.03;
  EXPECT_EQ(lf::warmup_steps(schedule, 60), 2);
  EXPECT_EQ(lf::warmup_steps(schedule, 100), 3);
  schedule.warmup_steps = 5;
  EXPECT_EQ(lf::warmup_steps(schedule, 60), 5);
}

TEST(learning_rate, stays_at_its_floor_beyond_the_last_step) {
  for (const char* name : {"linear", "cosine", "wsd"}) {
    lf::ScheduleSection schedule;
    schedule.name = name;
    schedule.final_fraction = 0.25;
    EXPECT_DOUBLE_EQ(lf::learning_rate(schedule, 1.0, 10, 10), 0.25) << name;
    EXPECT_DOUBLE_EQ(lf::learning_rate(schedule, 1.0, 10, 15), 0.25) << name;
  }
}
