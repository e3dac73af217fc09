#include "metrics/curves.h"

#include <cmath>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using ::testing::HasSubstr;

namespace {

std::vector<lf::CurvePoint> falling(size_t n) {
  std::vector<lf::CurvePoint> points;
  for (size_t i = 0; i < n; ++i) {
    points.push_back({static_cast<int64_t>(i + 1), 8.0 - 5.0 * static_cast<double>(i) / static_cast<double>(n), 1e-3});
  }
  return points;
}

// Points of the path with this class.
std::vector<std::pair<double, double>> drawn(const std::string& svg, const std::string& name) {
  const std::string start = "<path class=\"" + name + "\" d=\"";
  const size_t at = svg.find(start);
  if (at == std::string::npos) return {};
  std::string d = svg.substr(at + start.size(), svg.find('"', at + start.size()) - at - start.size());
  for (char& c : d) {
    if (c == 'M' || c == 'L') c = ' ';
  }
  std::istringstream numbers(d);
  std::vector<std::pair<double, double>> points;
  for (double x, y; numbers >> x >> y;) points.emplace_back(x, y);
  return points;
}

}  // namespace

TEST(curves, a_falling_loss_is_drawn_from_the_upper_left_to_the_lower_right) {
  const auto svg = lf::curves_svg("a run", falling(60));
  const auto raw = drawn(svg, "raw");
  ASSERT_EQ(raw.size(), 60u);
  EXPECT_NEAR(raw.front().first, 64, 0.1);
  EXPECT_NEAR(raw.back().first, 836, 0.1);
  for (size_t i = 1; i < raw.size(); ++i) EXPECT_GE(raw[i].second, raw[i - 1].second) << "y grows downwards";
  EXPECT_GE(raw.front().second, 48);
  EXPECT_LE(raw.back().second, 320);
  EXPECT_EQ(drawn(svg, "rate").size(), 60u);
  EXPECT_THAT(svg, HasSubstr("a run"));
}

TEST(curves, a_step_without_a_finite_loss_is_a_gap) {
  auto points = falling(20);
  points[7].loss = std::nan("");
  const auto svg = lf::curves_svg("a run", points);
  EXPECT_EQ(drawn(svg, "raw").size(), 19u);
  const size_t at = svg.find("class=\"raw\"");
  const std::string path = svg.substr(at, svg.find("/>", at) - at);
  EXPECT_EQ(std::count(path.begin(), path.end(), 'M'), 2);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(curves, runs_of_no_step_one_step_and_a_constant_loss_are_drawn_too) {
  EXPECT_THAT(lf::curves_svg("none", {}), HasSubstr("no step with a finite loss"));
  const std::vector<lf::CurvePoint> one{{1, 3.0, 0.0}};
  EXPECT_EQ(drawn(lf::curves_svg("one", one), "raw").size(), 1u);
  std::vector<lf::CurvePoint> flat = falling(5);
  for (auto& point : flat) point.loss = 0;
  for (const auto& svg : {lf::curves_svg("one", one), lf::curves_svg("flat", flat)}) {
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

TEST(curves, a_title_cannot_break_the_picture_and_a_long_run_stays_a_small_file) {
  const auto svg = lf::curves_svg("<script>&", falling(16'000));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&amp;"));
  EXPECT_LT(svg.size(), 100'000u);
  EXPECT_GT(drawn(svg, "raw").size(), 700u);
}

TEST(curves, ticks_are_round_and_inside) {
  EXPECT_THAT(lf::axis_ticks(0, 60, 8), ::testing::ElementsAre(0, 10, 20, 30, 40, 50, 60));
  const auto ticks = lf::axis_ticks(2.13, 7.9, 6);
  EXPECT_THAT(ticks, ::testing::ElementsAre(3, 4, 5, 6, 7));
  EXPECT_TRUE(lf::axis_ticks(1, 1, 5).empty());
  EXPECT_FALSE(std::signbit(lf::axis_ticks(-1e-12, 10, 5)[0])) << "an axis does not begin at -0";
}
