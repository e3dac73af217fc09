#include "media/resample.h"

#include <cmath>

#include <gtest/gtest.h>

#include "recorded.h"

namespace lf::media {
namespace {

double cubic(double x) {  // Keys, a = -1/2
  x = std::abs(x);
  return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

// One axis in double precision, from the definition; `step` is between neighbours of the axis.
double resampled(const std::vector<double>& line, int64_t at, int64_t target) {
  const double scale = static_cast<double>(line.size()) / static_cast<double>(target), wide = std::max(scale, 1.0);
  const double centre = (static_cast<double>(at) + 0.5) * scale;
  double sum = 0, weights = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const double weight = cubic((static_cast<double>(i) + 0.5 - centre) / wide);
    sum += weight * line[i];
    weights += weight;
  }
  return sum / weights;
}

TEST(Resample, each_axis_follows_the_definition_within_rounding) {
  const int64_t source = 37;
  for (const int64_t target : {1, 5, 14, 36, 37, 38, 80, 200}) {
    const auto pixels = test::picture(source, 1, 3);
    std::vector<uint8_t> wide(static_cast<size_t>(target * 3)), tall(static_cast<size_t>(target * 3));
    resize_bicubic(pixels.data(), {1, source}, wide.data(), {1, target}, PassOrder::kPillow);
    resize_bicubic(pixels.data(), {source, 1}, tall.data(), {target, 1}, PassOrder::kPillow);
    EXPECT_EQ(wide, tall);
    for (int64_t channel = 0; channel < 3; ++channel) {
      std::vector<double> line;
      for (int64_t x = 0; x < source; ++x) line.push_back(pixels[static_cast<size_t>(x * 3 + channel)]);
      for (int64_t x = 0; x < target; ++x)
        EXPECT_NEAR(wide[static_cast<size_t>(x * 3 + channel)], std::clamp(resampled(line, x, target), 0.0, 255.0),
                    0.51);
    }
  }
}

TEST(Resample, rows_that_are_no_multiple_of_the_lanes_are_written_whole_and_nothing_beyond) {
  for (const Size from : {Size{1, 1}, Size{17, 5}, Size{15, 16}, Size{33, 31}})
    for (const Size to : {Size{1, 1}, Size{16, 5}, Size{18, 33}, Size{7, 16}}) {
      const std::vector<uint8_t> flat(static_cast<size_t>(from.height * from.width * 3), 77);
      const auto size = static_cast<size_t>(to.height * to.width * 3);
      std::vector<uint8_t> out(size + 64, 3);
      resize_bicubic(flat.data(), from, out.data(), to, PassOrder::kPillow);
      EXPECT_TRUE(
          std::all_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size), [](uint8_t v) { return v == 77; }));
      EXPECT_TRUE(
          std::all_of(out.begin() + static_cast<std::ptrdiff_t>(size), out.end(), [](uint8_t v) { return v == 3; }));
    }
}

}  // namespace
}  // namespace lf::media
