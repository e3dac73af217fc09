#include "pi05/data/view.h"

#include <cmath>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "pi05/data/augmentation.h"

namespace lf::robot {
namespace {

using media::Size;
using nlohmann::json;
using testing::FloatNear;
using testing::Pointwise;

TEST(View, keeps_the_sides_ratio_and_fills_one_side) {
  EXPECT_EQ(fitted({480, 640}, 224), (Size{168, 224}));
  EXPECT_EQ(fitted({640, 480}, 224), (Size{224, 168}));
  EXPECT_EQ(fitted({96, 96}, 224), (Size{224, 224}));
  EXPECT_EQ(fitted({1, 4480}, 224), (Size{1, 224}));  // never without pixels
  EXPECT_EQ(fitted({1, 5000}, 224), (Size{1, 223}));  // as int(5000 / (5000 / 224)) is in Python
}

TEST(View, a_picture_of_one_colour_lies_in_the_middle_of_black) {
  const std::vector<uint8_t> white(30 * 60 * 3, 255);
  const Size inner = fitted({30, 60}, 41);
  EXPECT_EQ(inner, (Size{20, 41}));
  const int64_t top = (41 - 20) / 2;  // the odd pixel goes below
  for (const Resize how : {Resize::kPlain, Resize::kSmooth}) {
    const std::vector<uint8_t> out = resize_with_pad(white.data(), {30, 60}, 41, how);
    for (int64_t y = 0; y < 41; ++y)
      for (int64_t x = 0; x < 41 * 3; ++x)
        ASSERT_EQ(out[static_cast<size_t>(y * 41 * 3 + x)], y >= top && y < top + 20 ? 255 : 0) << y << ", " << x;
  }
}

json recorded() { return json::parse(std::ifstream(LF_SOURCE_DIR "/tests/fixtures/robot/views.json")); }

std::vector<uint8_t> picture(Size size) {
  std::vector<uint8_t> rgb;
  for (int64_t y = 0; y < size.height; ++y)
    for (int64_t x = 0; x < size.width; ++x)
      for (int64_t c = 0; c < 3; ++c) rgb.push_back(static_cast<uint8_t>(x * x * 7 + y * 31 + x * y * 5 + c * 80));
  return rgb;
}

// Of lerobot's numbers, which it does not round, ours are the nearest bytes; these are written to a hundredth.
constexpr float kHalfLevel = 0.52f;

// tools/robot_data/record_views.py
TEST(View, is_to_the_byte_what_openpi_makes_with_pillow) {
  const json all = recorded();
  for (const json& one : all["cases"]) {
    const Size size{one["height"], one["width"]};
    EXPECT_EQ(resize_with_pad(picture(size).data(), size, all["side"], Resize::kSmooth),
              one["rgb"].get<std::vector<uint8_t>>())
        << size.width << " x " << size.height;
  }
}

TEST(View, is_within_rounding_what_lerobot_makes) {
  const json all = recorded();
  for (const json& one : all["cases"]) {
    const Size size{one["height"], one["width"]};
    const std::vector<uint8_t> got = resize_with_pad(picture(size).data(), size, all["side"], Resize::kPlain);
    EXPECT_THAT(std::vector<float>(got.begin(), got.end()),
                Pointwise(FloatNear(kHalfLevel), one["lerobot"].get<std::vector<float>>()))
        << size.width << " x " << size.height;
  }
}

TEST(Augmentation, is_within_rounding_what_openpi_does_with_the_same_numbers) {
  const json all = recorded();
  const int64_t side = all["side"];
  std::set<std::vector<uint8_t>> seen;
  for (const json& one : all["augmented"]) {
    const json& by = one["by"];
    std::vector<uint8_t> rgb = picture({side, side});
    augment(rgb, side, {by[0], by[1], by[2], by[3], by[4], by[5], by[6]});
    EXPECT_THAT(std::vector<float>(rgb.begin(), rgb.end()),
                Pointwise(FloatNear(kHalfLevel), one["rgb"].get<std::vector<float>>()))
        << by;
    seen.insert(rgb);
  }
  EXPECT_EQ(seen.size(), all["augmented"].size());
}

TEST(Augmentation, takes_its_numbers_from_the_whole_of_their_ranges) {
  const Augmentation least = augmentation_of({0, 0, 0, 0, 0, 0}, 224, true);
  EXPECT_EQ(kept_side(224), 212);
  EXPECT_EQ(least.top, 0);
  EXPECT_EQ(least.left, 0);
  EXPECT_DOUBLE_EQ(least.degrees, -5);
  EXPECT_DOUBLE_EQ(least.brightness, 0.7);
  EXPECT_DOUBLE_EQ(least.contrast, 0.6);
  EXPECT_DOUBLE_EQ(least.saturation, 0.5);
  const double last = std::nextafter(1.0, 0.0);
  const Augmentation most = augmentation_of({last, last, last, last, last, last}, 224, false);
  EXPECT_FALSE(most.moves);
  EXPECT_EQ(most.top, 12);  // the reference draws from 0 to 224 - 212
  EXPECT_EQ(most.left, 12);
  EXPECT_NEAR(most.degrees, 5, 1e-9);
  EXPECT_NEAR(most.brightness, 1.3, 1e-9);
  EXPECT_NEAR(most.contrast, 1.4, 1e-9);
  EXPECT_NEAR(most.saturation, 1.5, 1e-9);
}

}  // namespace
}  // namespace lf::robot
