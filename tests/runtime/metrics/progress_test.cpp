#include "metrics/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "metrics/pace.h"
#include "metrics/text.h"
#include "runtime/metrics/a_report.h"

using lf::test::a_report;
using ::testing::HasSubstr;

namespace {

// Columns that a terminal shows: escape sequences take none, a UTF-8 character one.
int columns_of(const std::string& text) {
  int columns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
      continue;
    }
    columns += (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
  }
  return columns;
}

// What a progress writes into a pipe.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_NONBLOCK) != 0) throw std::runtime_error("pipe");
  }
  ~Pipe() { close(ends_[0]), close(ends_[1]); }
  int input() const { return ends_[1]; }
  std::string read_all() const {
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = read(ends_[0], bytes, sizeof(bytes))) > 0;) text.append(bytes, static_cast<size_t>(n));
    return text;
  }

 private:
  int ends_[2];
};

}  // namespace

TEST(progress, a_line_tells_all_that_the_run_is_judged_by) {
  auto report = a_report(12);
  report.mfu = 0.314;
  EXPECT_EQ(lf::progress_line(report, 151.0),
            "step 12/60  loss 2.7500  lr 1.20e-03  grad 1.25  supervised 3.1k tok/s  all 5.2k tok/s  mfu 31.4%  "
            "mem 1.2 GB  data wait 2.0%  0:06<2:31");
  report.balance = lf::BalanceReport{.measured_imbalance = 0.042};
  EXPECT_THAT(lf::progress_line(report, 151.0), HasSubstr("data wait 2.0%  imbalance 4.2%  0:06<2:31"));
  report.skipped = true;
  report.mfu.reset();
  EXPECT_THAT(lf::progress_line(report, std::nullopt), HasSubstr("loss 2.7500 (skipped)"));
  EXPECT_THAT(lf::progress_line(report, std::nullopt), ::testing::Not(HasSubstr("mfu")));
  EXPECT_THAT(lf::progress_line(report, std::nullopt), HasSubstr("0:06<?"));
}

TEST(progress, a_bar_never_exceeds_its_columns_and_gives_up_the_least_wanted_first) {
  for (int columns = 0; columns < 200; ++columns) {
    for (bool colour : {false, true}) {
      const auto text = lf::progress_bar(a_report(12), 151.0, {columns, colour, true});
      EXPECT_LE(columns_of(text), columns);
      EXPECT_TRUE(columns < 30 || text.find("12/60") != std::string::npos) << text;
      const bool has_rate = text.find("lr ") != std::string::npos;
      EXPECT_TRUE(!has_rate || text.find("loss 2.7500") != std::string::npos) << text;
    }
  }
  EXPECT_THAT(lf::progress_bar(a_report(12), 151.0, {160, true, true}), HasSubstr("wait 2%"));
}

TEST(progress, without_colour_there_is_no_escape_sequence) {
  EXPECT_EQ(lf::progress_bar(a_report(12), 151.0, {160, false, true}).find('\x1b'), std::string::npos);
  const auto ascii = lf::progress_bar(a_report(30), 151.0, {40, false, false});
  EXPECT_THAT(ascii, ::testing::StartsWith("====>--- 30/60"));
}

TEST(progress, elsewhere_than_on_a_terminal_a_line_comes_every_so_many_seconds_and_at_the_end) {
  Pipe pipe;
  lf::Progress::Options options;
  options.descriptor = pipe.input();
  options.seconds = 5;  // reports are half a second apart
  lf::Progress progress(options);
  for (int step = 1; step <= 25; ++step) progress.show(a_report(step, 25), 1.0);  // the last is told at once
  const std::string text = pipe.read_all();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  for (const char* step : {"step 1/25", "step 11/25", "step 21/25", "step 25/25"}) EXPECT_THAT(text, HasSubstr(step));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(progress, on_a_terminal_one_line_is_redrawn_and_a_plain_one_stays_at_the_end) {
  Pipe pipe;
  lf::Progress::Options options;
  options.descriptor = pipe.input();
  options.terminal = true;
  lf::Progress progress(options);
  for (int step = 1; step <= 3; ++step) progress.show(a_report(step), 1.0);
  progress.end();
  progress.end();
  const std::string text = pipe.read_all();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("\r\x1b[K"));
  EXPECT_THAT(text, ::testing::EndsWith("0:02<0:01\n"));
}

TEST(progress, a_reader_that_stands_still_does_not_hold_it) {
  Pipe pipe;
  fcntl(pipe.input(), F_SETFL, 0);  // writing to it would block once it is full
  lf::Progress::Options options;
  options.descriptor = pipe.input();
  options.seconds = 0;
  lf::Progress progress(options);
  for (int step = 1; step <= 2000; ++step) progress.show(a_report(step, 2000), 1.0);
  EXPECT_GT(pipe.read_all().size(), 4096u);  // and the test came here
}

TEST(pace, the_time_left_follows_the_time_between_reports_and_not_only_the_steps) {
  lf::Pace pace;
  EXPECT_FALSE(pace.left_seconds().has_value());
  for (int step = 1; step <= 100; ++step) {
    auto report = a_report(step, 200);
    report.elapsed_seconds = 2.0 * step;  // steps of 0.5 s, and 1.5 s of something else
    pace.add(report);
  }
  EXPECT_NEAR(*pace.left_seconds(), 200, 1);
}

TEST(pace, a_clock_that_is_set_back_changes_neither_the_lines_nor_the_time_left) {
  Pipe steady, set_back;
  lf::Progress::Options options;
  options.seconds = 1;
  std::string lines[2];
  for (const bool sets : {false, true}) {
    Pipe& pipe = sets ? set_back : steady;
    options.descriptor = pipe.input();
    lf::Progress progress(options);
    lf::Pace pace;
    for (int step = 1; step <= 40; ++step) {
      auto report = a_report(step, 200);
      if (sets && step > 10) report.unix_seconds -= 3600;
      if (sets && step > 30) report.unix_seconds += 7200;
      pace.add(report);
      progress.show(report, pace.left_seconds());
    }
    lines[sets] = pipe.read_all();
    EXPECT_NEAR(*pace.left_seconds(), 160 * 0.5, 1e-9);
  }
  EXPECT_EQ(std::count(lines[0].begin(), lines[0].end(), '\n'), 20);  // of 20 s, one a second
  EXPECT_EQ(lines[1], lines[0]);
}

TEST(text, numbers_are_short) {
  EXPECT_EQ(lf::short_count(87), "87");
  EXPECT_EQ(lf::short_count(3149), "3.1k");
  EXPECT_EQ(lf::short_count(999'700), "1.0M");
  EXPECT_EQ(lf::short_count(12'400'000), "12M");
  EXPECT_EQ(lf::short_bytes(1'234'000'000), "1.2 GB");
  EXPECT_EQ(lf::short_duration(42), "0:42");
  EXPECT_EQ(lf::short_duration(11'229), "3:07:09");
  EXPECT_EQ(lf::short_duration(2 * 86'400 + 4 * 3600 + 600), "2d 04:10");
  EXPECT_EQ(lf::utc_time(1'700'000'000), "2023-11-14T22:13:20Z");
}
