#include "pi05/data/view.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lf::robot {
namespace {

using media::Size;

TEST(View, keeps_the_sides_ratio_and_fills_one_side) {
  EXPECT_EQ(fitted({480, 640}, 224), (Size{168, 224}));
  EXPECT_EQ(fitted({640, 480}, 224), (Size{224, 168}));
  EXPECT_EQ(fitted({96, 96}, 224), (Size{224, 224}));
  EXPECT_EQ(fitted({1, 4480}, 224), (Size{1, 224}));  // never without pixels
  EXPECT_EQ(fitted({1, 5000}, 224), (Size{1, 223}));  // as int(5000 / (5000 / 224)) is in Python
}

TEST(View, a_picture_of_one_colour_lies_in_the_middle_of_black) {
  const std::vector<uint8_t> white(30 * 60 * 3, 255);
  const std::vector<uint8_t> out = resize_with_pad(white.data(), {30, 60}, 41);
  const Size inner = fitted({30, 60}, 41);
  EXPECT_EQ(inner, (Size{20, 41}));
  const int64_t top = (41 - 20) / 2;  // the odd pixel goes below
  for (int64_t y = 0; y < 41; ++y)
    for (int64_t x = 0; x < 41 * 3; ++x)
      ASSERT_EQ(out[static_cast<size_t>(y * 41 * 3 + x)], y >= top && y < top + 20 ? 255 : 0) << y << ", " << x;
}

// tools/robot_data/record_views.py
TEST(View, is_to_the_byte_what_openpi_makes_with_pillow) {
  const nlohmann::json recorded =
      nlohmann::json::parse(std::ifstream(LF_SOURCE_DIR "/tests/fixtures/robot/views.json"));
  for (const nlohmann::json& one : recorded["cases"]) {
    const Size size{one["height"], one["width"]};
    std::vector<uint8_t> rgb;
    for (int64_t y = 0; y < size.height; ++y)
      for (int64_t x = 0; x < size.width; ++x)
        for (int64_t c = 0; c < 3; ++c) rgb.push_back(static_cast<uint8_t>(x * x * 7 + y * 31 + x * y * 5 + c * 80));
    EXPECT_EQ(resize_with_pad(rgb.data(), size, recorded["side"]), one["rgb"].get<std::vector<uint8_t>>())
        << size.width << " x " << size.height;
  }
}

}  // namespace
}  // namespace lf::robot
