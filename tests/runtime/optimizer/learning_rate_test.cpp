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

TEST(moved_schedule, names_both_ends_and_the_rate_of_the_next_step_beside_the_one_that_was_due) {
  lf::ScheduleSection schedule;
  schedule.name = "linear";
  schedule.warmup_fraction = 0;
  schedule.final_fraction = 0;
  EXPECT_EQ(lf::moved_schedule(schedule, 1e-3, 100, 200, 50),
            "steps: was 100, is 200: the linear schedule now runs to step 200; step 51 has a learning rate of 0.00075, "
            "where 0.0005 was due");
  EXPECT_EQ(lf::moved_schedule(schedule, 1e-3, 100, 200, 100),
            "steps: was 100, is 200: the linear schedule now runs to step 200; step 101 has a learning rate of 0.0005, "
            "after the schedule had ended at 0");
  EXPECT_EQ(lf::moved_schedule(schedule, 1e-3, 200, 100, 50).rfind("steps: was 200, is 100: ", 0), 0u);
  for (const char* name : {"cosine", "wsd"}) {
    schedule.name = name;
    EXPECT_NE(lf::moved_schedule(schedule, 1e-3, 100, 200, 60).find(name), std::string::npos);
  }
}

TEST(moved_schedule, is_nothing_where_the_rates_to_come_are_the_same) {
  lf::ScheduleSection schedule;
  schedule.name = "cosine";
  EXPECT_EQ(lf::moved_schedule(schedule, 1e-3, 100, 100, 50), "");
  EXPECT_EQ(lf::moved_schedule(schedule, 1e-3, 200, 100, 100), "");  // nothing is left
  schedule.name = "constant";
  schedule.warmup_steps = 10;
  EXPECT_EQ(lf::moved_schedule(schedule, 1e-3, 100, 200, 5), "");
  schedule.warmup_steps = 0;
  schedule.warmup_fraction = 0.1;
  EXPECT_EQ(lf::moved_schedule(schedule, 1e-3, 100, 200, 20), "");
  EXPECT_NE(lf::moved_schedule(schedule, 1e-3, 100, 200, 15).find("of 0.00075, where 0.001 was due"),
            std::string::npos);
}
