#include "qwen_vl/processor/vision_rules.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "models.h"
#include "plugins/models/config_refusal.h"
#include "plugins/models/media/recorded.h"

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

VisionRules rules(Family family, const std::filesystem::path& folder = {}, const json& data = json::object()) {
  family::Findings remarks;
  return read_vision_rules(test::small_model(family), folder, data, remarks);
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

// The reference's videos of Qwen2-VL are asked for their sizes alone: which frames it takes is another rule.
TEST(VisionRules, a_file_whose_fields_differ_gives_the_sizes_that_transformers_gives_or_is_refused) {
  const json files = test::recorded_processor()["files"];
  const media::Size size{files["height"], files["width"]};
  int refused = 0, made = 0;
  for (const json& one : files["cases"]) {
    SCOPED_TRACE(one.dump());
    const std::string kind = one["kind"];
    const json& content = one["config"];
    const bool frames_alone =
        kind != "image" && (content.contains("num_frames") ||
                            (kind == "qwen3_video" && content.value("do_sample_frames", json(true)) == false));
    const test::TemporaryFolder folder;
    folder.write(kind == "image" ? "preprocessor_config.json" : "video_preprocessor_config.json", content);
    const Family family = kind == "qwen3_video" ? Family::kQwen3Vl : Family::kQwen2_5Vl;
    if (one["grid"].is_null() || frames_alone) {
      EXPECT_THROW(rules(family, folder.path()), sdk::Failure);
      ++refused;
      continue;
    }
    const VisionRules read = rules(family, folder.path());
    const auto looked_at =
        static_cast<int64_t>(read.sample(files["frames"], files["fps"], read.frames.frames_per_second).size());
    const media::Size target = kind == "image" ? read.image_size(size) : read.video_size(size, looked_at);
    EXPECT_EQ(target.height / read.shape.patch, one["grid"][1].get<int64_t>());
    EXPECT_EQ(target.width / read.shape.patch, one["grid"][2].get<int64_t>());
    if (kind == "qwen3_video") {
      EXPECT_EQ((looked_at + 1) / 2, one["grid"][0].get<int64_t>());
    }
    ++made;
  }
  EXPECT_GE(made, 25);
  EXPECT_GE(refused, 8);
}

TEST(VisionRules, limits_that_the_videos_of_qwen3_do_not_read_are_told) {
  const test::TemporaryFolder folder;
  folder.write("video_preprocessor_config.json", {{"max_pixels", 123456}});
  family::Findings remarks;
  read_vision_rules(test::small_model(Family::kQwen3Vl), folder.path(), json::object(), remarks);
  EXPECT_THAT(told(remarks), testing::HasSubstr("video_preprocessor_config.json: max_pixels has no effect on videos of "
                                                "Qwen3-VL, as in transformers: write it as size.longest_edge"));
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
      {{{"patch_size", 16}}, "patch_size"},           {{{"merge_size", 3}}, "merge_size"},
      {{{"do_resize", false}}, "do_resize"},          {{{"resample", 2}}, "resample"},
      {{{"image_mean", {1, 2}}}, "image_mean"},       {{{"max_pixels", -4}}, "max_pixels"},
      {{{"max_pixels", "x"}}, "max_pixels"},          {{{"size", 4}}, "size"},
      {{{"max_pixels", 1ull << 63}}, "max_pixels"},   {{{"max_video_tokens", 1ll << 60}}, "max_video_tokens"},
      {{{"max_frames", 1ll << 40}}, "max_frames"},    {{{"fps", 1e300}}, "fps"},
      {{{"rescale_factor", 0}}, "rescale_factor"},    {{{"image_std", {0.5, 0, 0.5}}}, "image_std"},
      {{{"image_mean", {1e300, 0, 0}}}, "image_mean"}};
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

// The error that a folder with this preprocessor_config.json has.
std::string refusal(const std::string& content, const json& data = json::object()) {
  const test::TemporaryFolder folder;
  folder.write_text("preprocessor_config.json", content);
  try {
    rules(Family::kQwen2Vl, folder.path(), data);
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_INVALID);
    return failure.what();
  }
  return "accepted";
}

TEST(VisionRules, all_mistakes_of_a_file_are_told_at_once_a_line_each) {
  const std::string said = refusal(R"({"min_pixels": "a", "patch_size": 7, "do_rescale": false})", {{"video_fps", -1}});
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3);
  EXPECT_THAT(said,
              testing::AllOf(
                  testing::HasSubstr("preprocessor_config.json: min_pixels: expected a whole number from 1"),
                  testing::HasSubstr("preprocessor_config.json: patch_size: expected 14 as in the model's config.json, "
                                     "got 7"),
                  testing::HasSubstr("preprocessor_config.json: do_rescale: expected true, got false"),
                  testing::HasSubstr("data.video_fps: expected a number from 0, got -1")));
}

TEST(VisionRules, limits_that_contradict_each_other_are_the_fault_of_the_one_that_says_them) {
  const std::string contrary = R"({"min_pixels": 99999999, "max_pixels": 4})";
  EXPECT_THAT(refusal(contrary),
              testing::AllOf(testing::HasSubstr("preprocessor_config.json: expected"), testing::HasSubstr("99999999"),
                             testing::Not(testing::HasSubstr("image_min_pixels"))));
  EXPECT_EQ(refusal(contrary, {{"image_max_pixels", 100'000}}), "accepted");
  EXPECT_THAT(refusal(R"({"max_pixels": 40000})", {{"image_min_pixels", 50'000}}),
              testing::StartsWith("data.image_min_pixels: 50000 is above the most pixels of an image, 40000"));
}

TEST(VisionRules, a_file_that_is_no_json_object_is_refused_with_where_it_breaks_and_what_to_do) {
  EXPECT_THAT(refusal("{\n\"min_pixels\" 4}"),
              testing::AllOf(testing::HasSubstr("preprocessor_config.json: expected a JSON object, got: parse error at "
                                                "line 2"),
                             testing::EndsWith("; correct the file, or take it anew from where the model is published"),
                             testing::Not(testing::HasSubstr("json.exception"))));
  EXPECT_THAT(refusal("[]"), testing::HasSubstr("preprocessor_config.json: expected a JSON object, got []; correct"));
  const test::TemporaryFolder folder;
  folder.write("processor_config.json", json::array());
  EXPECT_THROW(rules(Family::kQwen2Vl, folder.path()), sdk::Failure);
}

}  // namespace
}  // namespace lf::qwen_vl
