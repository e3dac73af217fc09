#include "metrics/metrics.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"
#include "runtime/metrics/a_report.h"
#include "support/scratch_folder.h"

using lf::test::a_report;
using nlohmann::json;

namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

lf::MetricsConfig quiet_config(const std::filesystem::path& folder) {
  lf::MetricsConfig config;
  config.folder = folder;
  config.title = "a run";
  config.start_unix_seconds = 1'700'000'000;
  config.progress.descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC);
  return config;
}

}  // namespace

TEST(metrics, a_run_leaves_its_rows_its_status_its_events_and_its_picture) {
  lf::test::ScratchFolder folder;
  lf::Metrics metrics(quiet_config(folder.path()));
  EXPECT_EQ(json::parse(content_of(folder.path() / "status.json")).at("state"), "running");
  for (int step = 1; step <= 60; ++step) metrics.write(a_report(step));
  metrics.finish("done");
  const auto rows = content_of(folder.path() / "metrics.jsonl");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 60);
  const json status = json::parse(content_of(folder.path() / "status.json"));
  EXPECT_EQ(status.at("state"), "done");
  EXPECT_EQ(status.at("step"), 60);
  EXPECT_EQ(status.at("eta_seconds"), 0.0);
  EXPECT_EQ(status.at("metrics").at("loss"), a_report(60).loss);
  EXPECT_EQ(status.at("updated"), "2023-11-14T22:13:50Z");
  EXPECT_THAT(content_of(folder.path() / "curves.svg"), ::testing::HasSubstr("class=\"loss\""));
  EXPECT_FALSE(std::filesystem::is_empty(folder.path() / "tb"));
  EXPECT_EQ(metrics.dropped(), 0);
}

TEST(metrics, the_status_of_a_run_whose_clock_is_set_back_is_renewed_all_the_same) {
  lf::test::ScratchFolder folder;
  lf::Metrics metrics(quiet_config(folder.path()));
  const std::filesystem::path file = folder.path() / "status.json";
  // Each is looked for before the next is written: the last status then is one of a step, not of the end.
  for (int step = 1; step <= 40; step += 2) {
    auto report = a_report(step);
    if (step > 10) report.unix_seconds -= 3600;
    metrics.write(report);
    const auto shown = [&] { return json::parse(content_of(file)).value("step", 0); };
    for (int tries = 0; shown() != step && tries < 2000; ++tries) usleep(5000);
    ASSERT_EQ(shown(), step);
  }
  EXPECT_EQ(json::parse(content_of(file)).at("updated"), "2023-11-14T21:13:39Z") << "what is shown is the clock's";
}

TEST(metrics, a_resumed_run_continues_the_rows_and_draws_both_parts) {
  lf::test::ScratchFolder folder;
  {
    lf::Metrics metrics(quiet_config(folder.path()));
    for (int step = 1; step <= 10; ++step) metrics.write(a_report(step));
  }
  EXPECT_EQ(json::parse(content_of(folder.path() / "status.json")).at("state"), "stopped");
  auto config = quiet_config(folder.path());
  config.finished_steps = 8;
  lf::Metrics metrics(config);
  for (int step = 9; step <= 20; ++step) metrics.write(a_report(step));
  metrics.finish("done");
  std::istringstream rows(content_of(folder.path() / "metrics.jsonl"));
  int64_t expected = 0;
  for (std::string line; std::getline(rows, line);) EXPECT_EQ(json::parse(line).at("step"), ++expected);
  EXPECT_EQ(expected, 20);
  const auto svg = content_of(folder.path() / "curves.svg");
  const auto path = svg.substr(svg.find("class=\"raw\""));
  EXPECT_EQ(std::count(path.begin(), path.begin() + static_cast<long>(path.find("/>")), 'L'), 19);
}

TEST(metrics, a_folder_that_does_not_exist_is_an_error_at_the_start) {
  lf::test::ScratchFolder folder;
  try {
    lf::Metrics metrics(quiet_config(folder.path() / "absent"));
    ADD_FAILURE() << "opened";
  } catch (const lf::Error& error) {
    EXPECT_EQ(error.exit(), lf::Exit::kCannotCreate);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("metrics.jsonl"));
  }
}

// A full disk, played by a limit of file size in a child of its own.
TEST(metrics, a_full_disk_is_one_warning_and_leaves_whole_rows) {
  lf::test::ScratchFolder folder;
  const auto log = folder.path() / "log";
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT, 0644);
    dup2(fd, 2);
    auto config = quiet_config(folder.path());
    config.tensorboard = false;
    lf::Metrics metrics(config);
    metrics.write(a_report(1));
    const rlimit limit{2000, 2000};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int step = 2; step <= 50; ++step) metrics.write(a_report(step));
    metrics.finish("done");
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::istringstream rows(content_of(folder.path() / "metrics.jsonl"));
  int64_t n = 0;
  for (std::string line; std::getline(rows, line);) EXPECT_EQ(json::parse(line).at("step"), ++n);
  EXPECT_GT(n, 1);
  EXPECT_LT(n, 50);
  const std::string said = content_of(log);
  size_t warnings = 0;
  for (size_t at = said.find("metrics.jsonl: File too large"); at != std::string::npos;
       at = said.find("metrics.jsonl: File too large", at + 1)) {
    ++warnings;
  }
  EXPECT_EQ(warnings, 1u) << said;
}

TEST(metrics, what_the_queue_cannot_hold_is_dropped_and_counted_while_writing_does_not_wait) {
  lf::test::ScratchFolder folder;
  lf::Metrics metrics(quiet_config(folder.path()));
  constexpr int64_t kReports = 50'000;  // much faster than rows can be formatted and written
  const auto start = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= kReports; ++step) metrics.write(a_report(step, kReports));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  metrics.finish("done");
  const auto rows = content_of(folder.path() / "metrics.jsonl");
  const auto written = std::count(rows.begin(), rows.end(), '\n');
  EXPECT_GT(metrics.dropped(), 0);
  EXPECT_EQ(written + metrics.dropped(), kReports);
  EXPECT_GE(written, 1024);
  EXPECT_LT(seconds / kReports, 100e-6) << "a write costs what a copy costs";
}
