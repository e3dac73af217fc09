#include "media/smart_resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lf/plugin_sdk/guard.hpp"
#include "recorded.h"

namespace lf::media {
namespace {

TEST(SmartResize, sizes_of_pictures_and_videos_are_the_references) {
  const nlohmann::json recorded = test::recorded_processor();
  ASSERT_GT(recorded["sizes"].size(), 200u);
  for (const auto& row : recorded["sizes"]) {
    const Size size{row[0], row[1]};
    const auto factor = row[2].get<int64_t>();
    const PixelLimits limits{row[3], row[4]};
    EXPECT_EQ(smart_resize(size, factor, limits), (Size{row[5], row[6]})) << row.dump();
    EXPECT_EQ(smart_resize_video(row[7], size, 2, factor, limits), (Size{row[8], row[9]})) << row.dump();
  }
}

TEST(SmartResize, sides_are_multiples_of_the_factor_and_never_zero) {
  for (int64_t height = 1; height < 90; height += 3)
    for (int64_t width = 1; width < 90; width += 2)
      for (const PixelLimits limits : {PixelLimits{0, 1}, PixelLimits{0, 1 << 30}, PixelLimits{3136, 1'003'520}}) {
        const Size out = smart_resize({height, width}, 28, limits);
        EXPECT_GE(out.height, 28);
        EXPECT_GE(out.width, 28);
        EXPECT_EQ(out.height % 28, 0);
        EXPECT_EQ(out.width % 28, 0);
      }
}

TEST(SmartResize, empty_and_extreme_pictures_are_refused_by_their_size) {
  const PixelLimits limits{3136, 1'003'520};
  EXPECT_NO_THROW(smart_resize({1, 200}, 28, limits));
  for (const Size size : {Size{1, 201}, Size{4021, 20}, Size{0, 5}, Size{5, 0}, Size{-1, 5}}) {
    try {
      smart_resize(size, 28, limits);
      FAIL() << size.height << " x " << size.width;
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      EXPECT_THAT(failure.what(), testing::HasSubstr(std::to_string(size.width) + " x " + std::to_string(size.height)));
    }
    EXPECT_THROW(smart_resize_video(4, size, 2, 28, limits), sdk::Failure);
  }
}

}  // namespace
}  // namespace lf::media
