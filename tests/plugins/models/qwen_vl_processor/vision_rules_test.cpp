#include "qwen_vl/processor/vision_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "models.h"

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

VisionRules rules(Family family, const std::filesystem::path& folder = {}, const json& data = json::object()) {
  return read_vision_rules(test::small_model(family), folder, data);
}

TEST(VisionRules, a_models_files_say_limits_means_and_frames_each_for_its_kind) {
  const test::TemporaryFolder folder;
  folder.write("preprocessor_config.json", {{"min_pixels", 3136},
                                            {"max_pixels", 12845056},
                                            {"image_mean", {0, 0, 0}},
                                            {"image_std", {1, 1, 1}},
                                            {"patch_size", 14},
                                            {"image_processor_type", "Qwen2VLImageProcessor"}});
  VisionRules read = rules(Family::kQwen2_5Vl, folder.path());
  EXPECT_EQ(read.image.least, 3136);
  EXPECT_EQ(read.image.most, 12845056);
  EXPECT_EQ(read.video.most, 768 * 28 * 28);  // a picture's limits are no frame's
  EXPECT_FLOAT_EQ(read.image_levels.value[1][255], 1);
  EXPECT_FLOAT_EQ(read.video_levels.value[1][255], 1);

  folder.write("video_preprocessor_config.json", {{"size", {{"shortest_edge", 4096}, {"longest_edge", 25165824}}},
                                                  {"fps", 1.5},
                                                  {"max_frames", 100},
                                                  {"image_mean", {0.5, 0.5, 0.5}},
                                                  {"image_std", {0.5, 0.5, 0.5}}});
  read = rules(Family::kQwen2_5Vl, folder.path());
  EXPECT_EQ(read.video.least, 4096);
  EXPECT_EQ(read.video.most, 25165824);
  EXPECT_EQ(read.frames.most, 100);
  EXPECT_EQ(read.frames.frames_per_second, 1.5);
  EXPECT_FLOAT_EQ(read.video_levels.value[0][0], -1);
  EXPECT_FLOAT_EQ(read.image_levels.value[0][0], 0);

  folder.write("processor_config.json",
               {{"image_processor", {{"size", {{"longest_edge", 7777}, {"shortest_edge", 100}}}}}});
  EXPECT_EQ(rules(Family::kQwen2_5Vl, folder.path()).image.most, 7777);  // the nested layout comes first
}

TEST(VisionRules, the_job_overrides_the_models_files) {
  const test::TemporaryFolder folder;
  folder.write("preprocessor_config.json", {{"min_pixels", 3136}, {"max_pixels", 12845056}});
  const VisionRules read = rules(
      Family::kQwen2Vl, folder.path(),
      {{"image_max_pixels", 100'000}, {"image_min_pixels", 50'000}, {"video_fps", 0.5}, {"video_max_frames", 10}});
  EXPECT_EQ(read.image.least, 50'000);
  EXPECT_EQ(read.image.most, 100'000);
  EXPECT_EQ(read.frames.frames_per_second, 0.5);
  EXPECT_EQ(read.frames.most, 10);
  EXPECT_LE(read.sample(1000, 30, 30).size(), 10u);
  const media::Size size = read.image_size({2000, 3000});
  EXPECT_LE(size.height * size.width, 100'000);
}

TEST(VisionRules, frames_of_long_videos_share_what_a_video_may_cost) {
  const VisionRules two = rules(Family::kQwen2_5Vl);
  const auto area = [](media::Size size) { return size.height * size.width; };
  EXPECT_GT(area(two.video_size({1080, 1920}, 4)), area(two.video_size({1080, 1920}, 768)));
  EXPECT_LE(area(two.video_size({1080, 1920}, 768)), static_cast<int64_t>(128'000 * 0.9 * 28 * 28 / 768 * 2));
  const VisionRules three = rules(Family::kQwen3Vl);
  EXPECT_LE(area(three.video_size({1080, 1920}, 4)) * 4, 768 * 32 * 32);
  const VisionRules job = rules(Family::kQwen3Vl, {}, {{"video_max_pixels", 32 * 32 * 6}});
  EXPECT_LE(area(job.video_size({1080, 1920}, 4)), 32 * 32 * 6);
}

TEST(VisionRules, what_contradicts_the_model_or_is_not_offered_is_refused_by_file_and_key) {
  const std::pair<json, const char*> cases[] = {
      {{{"patch_size", 16}}, "patch_size"},     {{{"merge_size", 3}}, "merge_size"},
      {{{"do_resize", false}}, "do_resize"},    {{{"resample", 2}}, "resample"},
      {{{"image_mean", {1, 2}}}, "image_mean"}, {{{"max_pixels", -4}}, "max_pixels"},
      {{{"max_pixels", "x"}}, "max_pixels"},    {{{"size", 4}}, "size"}};
  for (const auto& [content, key] : cases) {
    const test::TemporaryFolder folder;
    folder.write("preprocessor_config.json", content);
    try {
      rules(Family::kQwen2Vl, folder.path());
      FAIL() << key;
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_INVALID);
      EXPECT_THAT(failure.what(),
                  testing::AllOf(testing::HasSubstr("preprocessor_config.json"), testing::HasSubstr(key)));
    }
  }
  EXPECT_THROW(rules(Family::kQwen2Vl, {}, {{"image_min_pixels", 2'000'000'000}}), sdk::Failure);
  EXPECT_THROW(rules(Family::kQwen2Vl, {}, {{"video_fps", -1}}), sdk::Failure);
}

}  // namespace
}  // namespace lf::qwen_vl
