#include "media/frames.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "lf/plugin_sdk/guard.hpp"
#include "recorded.h"

namespace lf::media {
namespace {

TEST(Frames, sampled_frames_are_the_references) {
  const nlohmann::json recorded = test::recorded_processor();
  ASSERT_EQ(recorded["frames"].size(), 36u);
  for (const auto& one : recorded["frames"]) {
    SCOPED_TRACE(one.dump().substr(0, 60));
    FrameRule rule;
    rule.frames_per_second = one["wanted"];
    EXPECT_EQ(sample_frames_qwen3(one["total"], one["fps"], rule), one["qwen3"].get<std::vector<int64_t>>());
    if (!one["qwen2"].is_null()) {
      EXPECT_EQ(sample_frames_qwen2(one["total"], one["fps"], rule), one["qwen2"].get<std::vector<int64_t>>());
    }
  }
}

TEST(Frames, frames_ascend_within_the_video_and_their_number_within_the_rule) {
  FrameRule rule;
  rule.most = 20;
  for (int64_t total = 1; total < 200; ++total)
    for (const double fps : {0.1, 2.0, 29.97, 1000.0})
      for (auto* const sample : {&sample_frames_qwen2, &sample_frames_qwen3}) {
        const auto frames = (*sample)(total, fps, rule);
        ASSERT_FALSE(frames.empty());
        EXPECT_LE(frames.size(), 20u);
        EXPECT_GE(frames.front(), 0);
        EXPECT_LT(frames.back(), total);
        EXPECT_TRUE(std::is_sorted(frames.begin(), frames.end()));
      }
}

TEST(Frames, a_video_without_frames_or_rate_is_refused) {
  for (const double fps :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(sample_frames_qwen2(10, fps, {}), sdk::Failure);
  EXPECT_THROW(sample_frames_qwen3(0, 30, {}), sdk::Failure);
}

}  // namespace
}  // namespace lf::media
