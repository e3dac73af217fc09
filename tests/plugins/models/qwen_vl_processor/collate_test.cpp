#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fake_host.h"
#include "media/resample.h"
#include "models.h"
#include "qwen_vl/processor/processor.h"
#include "tensors.h"

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

json user(std::initializer_list<json> items) { return {{"role", "user"}, {"content", items}}; }
json answer(const char* words) { return {{"role", "assistant"}, {"content", {{{"type", "text"}, {"text", words}}}}}; }
json words(const char* text) { return {{"type", "text"}, {"text", text}}; }
json image(const char* path) { return {{"type", "image"}, {"path", path}}; }
json video(const char* path) { return {{"type", "video"}, {"path", path}}; }

// Conversations on a fake disk, through a processor of each generation.
class Collate : public testing::TestWithParam<Family> {
 protected:
  Collate() {
    folder_.write("tokenizer.json", test::byte_tokenizer());
    host_.files = {
        {"a.png", {60, 90}}, {"b.png", {200, 40}}, {"v.mp4", {80, 60, 9, 3.0}}, {"long.mp4", {64, 64, 300, 30.0}}};
    for (int i = 0; i < 5; ++i) host_.files["f" + std::to_string(i) + ".png"] = {64, 50};
    processor_ =
        std::make_unique<QwenVlProcessor>(host_.host(), test::small_model(GetParam()),
                                          json{{"path", nullptr},
                                               {"tokenizer", folder_.path().string()},
                                               {"data", {{"image_max_pixels", 40'000}, {"video_max_pixels", 20'000}}}}
                                              .dump());
  }
  // A sample whose strings live as long as the test.
  const lf_sample* sample(const json& messages, int64_t max_rows = 0) {
    texts_.push_back(json{{"id", "x"}, {"messages", messages}}.dump());
    samples_.push_back(sdk::with_header<lf_sample>());
    samples_.back().json = sdk::str(texts_.back());
    samples_.back().place = sdk::str("train.jsonl:17");
    samples_.back().max_rows = max_rows;
    return &samples_.back();
  }
  std::string refusal(const lf_sample* one, bool decode) {
    try {
      if (decode) {
        processor_->collate({&one, 1});
      } else {
        processor_->features(*one);
      }
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      return failure.what();
    }
    return "accepted";
  }
  test::TemporaryFolder folder_;
  test::FakeHost host_;
  std::unique_ptr<QwenVlProcessor> processor_;
  std::deque<std::string> texts_;
  std::deque<lf_sample> samples_;
};

TEST_P(Collate, features_promise_exactly_what_collate_makes) {
  const lf_sample* all[] = {sample({user({words("hi")}), answer("hello")}),
                            sample({user({image("a.png"), words("\nwhat?"), image("b.png")}), answer("two")}),
                            sample({user({words("see"), video("v.mp4"), image("a.png")}), answer("x")}),
                            sample({user({video("long.mp4")}), answer("y")})};
  double rows = 0, supervised = 0, patches = 0;
  for (const lf_sample* one : all) {
    const Features features = processor_->features(*one);
    rows += features.language[0];
    supervised += features.language[1];
    for (size_t i = 0; i < features.vision.size(); i += 3) patches += features.vision[i];
    const Columns alone = processor_->collate({&one, 1});
    EXPECT_EQ(features.language[0], static_cast<double>(test::integers(alone.view(), "input_ids").size()));
  }
  const Columns made = processor_->collate(all);
  const auto targets = test::integers(made.view(), "targets");
  EXPECT_EQ(rows, static_cast<double>(targets.size()));
  EXPECT_EQ(supervised,
            static_cast<double>(std::count_if(targets.begin(), targets.end(), [](int64_t t) { return t != -100; })));
  const lf_tensor* pixels = test::find(made.view(), "pixel_values");
  ASSERT_NE(pixels, nullptr);
  EXPECT_EQ(patches, static_cast<double>(pixels->shape[0]));
  EXPECT_EQ(test::integers(made.view(), "visual_rows").size() * 4, static_cast<size_t>(pixels->shape[0]));
  EXPECT_EQ(test::integers(made.view(), "segment_starts").size(), 5u);
  EXPECT_EQ(test::find(made.view(), "source_row"), nullptr);
}

TEST_P(Collate, packed_samples_are_the_same_rows_as_one_by_one) {
  const lf_sample* all[] = {sample({user({image("a.png"), words("what?")}), answer("a")}),
                            sample({user({words("hi")}), answer("hello")}),
                            sample({user({video("v.mp4"), image("b.png")}), answer("b")})};
  const Columns packed = processor_->collate(all);
  std::vector<int64_t> ids, targets, visual, grids;
  std::array<std::vector<int64_t>, 3> axes;
  std::vector<float> pixels;
  for (const lf_sample* one : all) {
    const Columns alone = processor_->collate({&one, 1});
    const auto start = static_cast<int64_t>(ids.size());
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    const auto positions = test::integers(alone.view(), "position_ids");
    for (size_t axis = 0; axis < 3; ++axis)
      axes[axis].insert(axes[axis].end(), positions.begin() + static_cast<std::ptrdiff_t>(axis * positions.size() / 3),
                        positions.begin() + static_cast<std::ptrdiff_t>((axis + 1) * positions.size() / 3));
    append(ids, test::integers(alone.view(), "input_ids"));
    append(targets, test::integers(alone.view(), "targets"));
    if (test::find(alone.view(), "pixel_values") == nullptr) continue;
    for (const int64_t row : test::integers(alone.view(), "visual_rows")) visual.push_back(start + row);
    append(grids, test::integers(alone.view(), "grid_thw"));
    append(pixels, test::floats(alone.view(), "pixel_values"));
  }
  EXPECT_EQ(test::integers(packed.view(), "input_ids"), ids);
  EXPECT_EQ(test::integers(packed.view(), "targets"), targets);
  EXPECT_EQ(test::integers(packed.view(), "visual_rows"), visual);
  EXPECT_EQ(test::integers(packed.view(), "grid_thw"), grids);
  EXPECT_EQ(test::floats(packed.view(), "pixel_values"), pixels);
  std::vector<int64_t> joined;
  for (const auto& axis : axes) joined.insert(joined.end(), axis.begin(), axis.end());
  EXPECT_EQ(test::integers(packed.view(), "position_ids"), joined);
}

TEST_P(Collate, a_videos_frames_are_the_ones_of_the_rule_in_their_order) {
  const lf_sample* one = sample({user({video("v.mp4")}), answer("x")});
  const Columns made = processor_->collate({&one, 1});
  const auto grid = test::integers(made.view(), "grid_thw");
  const auto pixels = test::floats(made.view(), "pixel_values");
  // 9 frames at 3 a second, looked at twice a second: 6.
  const int64_t frames[] = {0, 2, 3, 5, 6, 8};
  ASSERT_EQ(grid[0], 3);
  const int64_t patch = is_qwen3(GetParam()) ? 16 : 14, height = grid[1] * patch, width = grid[2] * patch;
  std::vector<double> mean(3, 0.5), deviation(3, 0.5);
  if (!is_qwen3(GetParam())) {
    mean = {0.48145466, 0.4578275, 0.40821073};
    deviation = {0.26862954, 0.26130258, 0.27577711};
  }
  const int64_t group = grid[1] * grid[2] * 3 * 2 * patch * patch;
  for (int64_t i = 0; i < 6; ++i) {
    std::vector<uint8_t> source, target(static_cast<size_t>(height * width * 3));
    for (int64_t y = 0; y < 60; ++y)
      for (int64_t x = 0; x < 80; ++x)
        for (int64_t c = 0; c < 3; ++c) source.push_back(test::fake_pixel(80, frames[i], y, x, c));
    media::resize_bicubic(source.data(), {60, 80}, target.data(), {height, width}, media::PassOrder::kRowsFirst);
    for (int64_t c = 0; c < 3; ++c) {  // the first pixel of the first patch of the frame
      const auto at = static_cast<size_t>(i / 2 * group + (c * 2 + i % 2) * patch * patch);
      EXPECT_NEAR(
          pixels[at],
          (target[static_cast<size_t>(c)] / 255.0 - mean[static_cast<size_t>(c)]) / deviation[static_cast<size_t>(c)],
          1e-5)
          << i;
    }
  }
}

TEST_P(Collate, a_list_of_pictures_is_a_video_at_the_rate_given) {
  json frames = json::array();
  for (int i = 0; i < 5; ++i) frames.push_back("f" + std::to_string(i) + ".png");
  const lf_sample* one = sample({user({{{"type", "video"}, {"frames", frames}, {"fps", 0.5}}}), answer("x")});
  const Columns made = processor_->collate({&one, 1});
  EXPECT_EQ(test::integers(made.view(), "grid_thw")[0], 3);  // 5 and the last again
  const auto ids = test::integers(made.view(), "input_ids");
  std::string text;
  for (const int64_t id : ids) text += id < 256 ? std::string(1, static_cast<char>(id)) : "#";
  if (is_qwen3(GetParam())) {
    EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("<1.0 seconds>"), testing::HasSubstr("<5.0 seconds>"),
                                     testing::HasSubstr("<8.0 seconds>")));
  } else if (GetParam() == Family::kQwen2_5Vl) {
    const auto positions = test::integers(made.view(), "position_ids"),
               rows = test::integers(made.view(), "visual_rows");
    EXPECT_EQ(positions[static_cast<size_t>(rows.back())] - positions[static_cast<size_t>(rows.front())],
              2 * 4 * 2);  // two groups of 4 s, 2 tokens a second
  }
  const int64_t width = host_.files["f3.png"].width, height = host_.files["f3.png"].height;
  host_.files["f3.png"] = {height + 1, width};
  EXPECT_THAT(refusal(one, false),  // already by the headers
              testing::HasSubstr("train.jsonl:17: frame 4 (f3.png) is " + std::to_string(height + 1) + " x " +
                                 std::to_string(width) + ", frame 1 (f0.png) is " + std::to_string(width) + " x " +
                                 std::to_string(height) + "; frames of one video must be of one size"));
}

TEST_P(Collate, a_cut_sample_keeps_whole_pictures_and_the_features_say_so) {
  const json messages = {user({words("see "), image("a.png"), words(" and "), image("b.png")}), answer("two pictures")};
  const auto whole = static_cast<int64_t>(processor_->features(*sample(messages)).language[0]);
  for (int64_t rows = 1; rows <= whole; ++rows) {
    const lf_sample* one = sample(messages, rows);
    const Features features = processor_->features(*one);
    const Columns made = processor_->collate({&one, 1});
    const auto ids = test::integers(made.view(), "input_ids");
    ASSERT_LE(static_cast<int64_t>(ids.size()), rows);
    EXPECT_EQ(features.language[0], static_cast<double>(ids.size()));
    const auto count = [&](int64_t id) { return std::count(ids.begin(), ids.end(), id); };
    EXPECT_EQ(count(151652), count(151653));  // every marker has its counterpart
    const lf_tensor* grids = test::find(made.view(), "grid_thw");
    EXPECT_EQ(count(151652), grids == nullptr ? 0 : grids->shape[0]);
  }
}

TEST_P(Collate, bad_samples_are_named_with_their_place_and_their_file) {
  host_.files["thin.png"] = {201, 1};
  host_.files["empty.png"] = {0, 10};
  host_.files["liar.png"] = {60, 90, 1, 0, 61};
  host_.files["broken.png"] = {60, 90, 1, 0, 0, true};
  host_.files["still.mp4"] = {60, 90, 0, 25.0};
  const auto place = testing::HasSubstr("train.jsonl:17");
  EXPECT_THAT(refusal(sample({user({image("nowhere.png")}), answer("x")}), false),
              testing::AllOf(place, testing::HasSubstr("nowhere.png")));
  EXPECT_THAT(refusal(sample({user({image("thin.png")}), answer("x")}), false),
              testing::AllOf(place, testing::HasSubstr("thin.png: a picture of 201 x 1 pixels")));
  EXPECT_THAT(refusal(sample({user({image("empty.png")}), answer("x")}), false),
              testing::AllOf(place, testing::HasSubstr("empty.png: a picture of 0 x 10 pixels")));
  EXPECT_THAT(refusal(sample({user({image("v.mp4")}), answer("x")}), false),
              testing::AllOf(place, testing::HasSubstr("v.mp4")));
  EXPECT_THAT(refusal(sample({user({video("still.mp4")}), answer("x")}), false),
              testing::AllOf(place, testing::HasSubstr("still.mp4: "), testing::HasSubstr("0 frames")));
  EXPECT_THAT(refusal(sample({user({image("liar.png")}), answer("x")}), true),
              testing::AllOf(place, testing::HasSubstr("liar.png"), testing::HasSubstr("90 x 61")));
  EXPECT_THAT(refusal(sample({user({image("broken.png")}), answer("x")}), true),
              testing::AllOf(place, testing::HasSubstr("broken.png")));
  EXPECT_EQ(refusal(sample({user({image("broken.png")}), answer("x")}), false), "accepted");  // headers are fine
  lf_sample words_alone = *sample({user({words("x")}), answer("y")});
  words_alone.json = sdk::str("{\"id\":\"im.jsonl:3\",\"text\":\"abc\"}");
  EXPECT_THAT(refusal(&words_alone, false),
              testing::AllOf(place, testing::HasSubstr("sample: expected a conversation (\"messages\" or "
                                                       "\"conversations\"), which this model family learns from, got "
                                                       "one with \"text\"; docs/samples.md")));
  const std::string flat = "{\"messages\":[{\"role\":\"user\",\"content\":\"text\"}]}";
  lf_sample wrong = *sample({user({words("x")}), answer("y")});
  wrong.json = sdk::str(flat);
  EXPECT_THAT(refusal(&wrong, false), testing::AllOf(place, testing::HasSubstr("messages[0].content")));
  const lf_sample* good_then_bad[] = {sample({user({words("x")}), answer("y")}),
                                      sample({user({image("broken.png")}), answer("x")})};
  EXPECT_THROW(processor_->collate(good_then_bad), sdk::Failure);
}

TEST_P(Collate, many_threads_get_the_same_columns) {
  const lf_sample* one = sample({user({image("a.png"), words("what?"), video("v.mp4")}), answer("a")});
  const QwenVlProcessor fresh(host_.host(), test::small_model(GetParam()),
                              json{{"tokenizer", folder_.path().string()}}.dump());
  std::vector<std::vector<float>> pixels(6);
  std::vector<std::thread> threads;
  for (auto& own : pixels)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) own = test::floats(fresh.collate({&one, 1}).view(), "pixel_values");
    });
  for (auto& thread : threads) thread.join();
  for (const auto& own : pixels) EXPECT_EQ(own, pixels.front());
}

INSTANTIATE_TEST_SUITE_P(Families, Collate, testing::Values(Family::kQwen2Vl, Family::kQwen2_5Vl, Family::kQwen3Vl),
                         [](const auto& info) {
                           return info.param == Family::kQwen2Vl     ? "qwen2"
                                  : info.param == Family::kQwen2_5Vl ? "qwen2_5"
                                                                     : "qwen3";
                         });

}  // namespace
}  // namespace lf::qwen_vl
