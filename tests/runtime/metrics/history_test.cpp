#include "metrics/history.h"

#include <cmath>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/metrics/a_report.h"
#include "support/scratch_folder.h"

using lf::test::a_report;
using nlohmann::json;

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<int64_t> steps_of(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  for (const auto& line : lines_of(path)) steps.push_back(json::parse(line).at("step"));
  return steps;
}

}  // namespace

TEST(history, a_row_is_one_json_object_with_the_numbers_of_the_step) {
  auto report = a_report(3);
  report.mfu = 0.41;
  report.aux = {{"router \"balance\"", 0.5}};
  const json row = json::parse(lf::json_row(report));
  EXPECT_EQ(row.at("step"), 3);
  EXPECT_EQ(row.at("loss"), 5.0);
  EXPECT_EQ(row.at("grad_norm"), 1.25);
  EXPECT_EQ(row.at("lr"), 1e-4 * 3);
  EXPECT_EQ(row.at("supervised_tokens"), 1550);
  EXPECT_EQ(row.at("tokens_per_second"), 5200);
  EXPECT_EQ(row.at("mfu"), 0.41);
  EXPECT_EQ(row.at("skipped"), false);
  EXPECT_EQ(row.at("aux").at("router \"balance\""), 0.5);
}

TEST(history, how_a_step_was_balanced_is_told_where_there_is_more_than_one_rank) {
  auto report = a_report(3);
  EXPECT_FALSE(json::parse(lf::json_row(report)).contains("balance"));
  report.balance = lf::BalanceReport{.planned = true, .arrival_imbalance = 0.5, .measured_imbalance = 0.0625};
  const json balance = json::parse(lf::json_row(report)).at("balance");
  EXPECT_EQ(balance.at("planned"), true);
  EXPECT_EQ(balance.at("arrival_imbalance"), 0.5);
  EXPECT_EQ(balance.at("measured_imbalance"), 0.0625);
}

TEST(history, the_parts_of_a_step_add_up_to_it) {
  auto report = a_report(1);
  report.model_seconds = 0.4;
  report.peer_wait_seconds = 0.03;
  report.optimizer_seconds = 0.02;
  const json row = json::parse(lf::json_row(report));
  double sum = 0;
  for (const char* part : {"data_wait_seconds", "model_seconds", "peer_wait_seconds", "reduction_exposed_seconds",
                           "optimizer_seconds", "rest_seconds"})
    sum += row.at(part).get<double>();
  EXPECT_DOUBLE_EQ(sum, row.at("step_seconds"));
  EXPECT_NEAR(row.at("rest_seconds"), 0.5 - 0.4 - 0.03 - 0.02 - 0.01 - 0.02, 1e-12);
}

TEST(history, numbers_that_are_not_finite_are_null_because_json_has_none) {
  auto report = a_report(1);
  report.loss = std::nan("");
  report.grad_norm = std::numeric_limits<double>::infinity();
  const json row = json::parse(lf::json_row(report));
  EXPECT_TRUE(row.at("loss").is_null());
  EXPECT_TRUE(row.at("grad_norm").is_null());
}

TEST(history, a_resumed_run_has_each_step_once_and_keeps_the_curve) {
  lf::test::ScratchFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  {
    lf::History history(file, 0);
    for (int step = 1; step <= 7; ++step) history.append(a_report(step));
  }
  const auto before = lines_of(file);
  std::ofstream(file, std::ios::app) << R"({"step": 8, "loss": 1.)";  // killed in the middle of a row
  lf::History history(file, 5);                                       // the checkpoint is older than the last row
  EXPECT_THAT(steps_of(file), ::testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(lines_of(file)[2], before[2]) << "kept rows stay as they are";
  for (int step = 6; step <= 9; ++step) history.append(a_report(step));
  EXPECT_THAT(steps_of(file), ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  ASSERT_EQ(history.curve().size(), 9u);
  EXPECT_EQ(history.curve()[2].loss, 5.0);
  EXPECT_EQ(history.curve()[2].learning_rate, 1e-4 * 3);
}

TEST(history, a_fresh_run_over_an_old_file_starts_empty) {
  lf::test::ScratchFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  { lf::History(file, 0).append(a_report(1)); }
  lf::History history(file, 0);
  EXPECT_TRUE(lines_of(file).empty());
  EXPECT_TRUE(history.curve().empty());
}

TEST(history, the_curve_of_a_long_run_stays_small_and_keeps_its_ends) {
  lf::test::ScratchFolder folder;
  lf::History history(folder.path() / "metrics.jsonl", 0);
  for (int step = 1; step <= 40'000; ++step) history.append(a_report(step));
  EXPECT_LE(history.curve().size(), 16'384u);
  EXPECT_GE(history.curve().size(), 8'000u);
  EXPECT_EQ(history.curve().front().step, 1);
  EXPECT_EQ(history.curve().back().step, 40'000);
}
