#include "pi05/recorded_frames.h"

#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../text/small_tokenizer.h"
#include "data/pusht.h"
#include "data/refusal.h"
#include "family/draws.h"
#include "pi05/data/augmentation.h"
#include "pi05/flow_time.h"

namespace lf::pi05 {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RecordedFramesTest : public testing::Test {
 protected:
  RecordedFramesTest() {
    std::ofstream(scratch_.path() / "tokenizer.json") << test::small_tokenizer();
    config_.image_size = 28;
    config_.patch = 14;
    config_.views = 2;
    config_.horizon = 8;
    config_.action_columns = 4;
    config_.vocabulary = 300;
  }
  RecordedFrames frames(const json& options = json::object(), uint64_t seed = 3) {
    auto read =
        family::read_whole([&](family::Findings& findings) { return read_options(options, config_, findings); });
    return {host_.host.table(), config_, std::move(read), scratch_.path().string(), seed};
  }
  lf_sample sample(int64_t frame) {
    json_ = json{{"robot", {{"directory", test::robot_fixture("pusht").string()}, {"frame", frame}}}}.dump();
    lf_sample out = sdk::with_header<lf_sample>();
    out.id = static_cast<uint64_t>(frame);
    out.json = sdk::str(json_);
    return out;
  }

  test::ScratchFolder scratch_;
  test::DecodingHost host_;
  Pi05Config config_;
  std::string json_;
};

TEST_F(RecordedFramesTest, noise_at_a_time_is_mixed_into_the_normalised_actions_of_the_frame) {
  const robot::RobotSamples plain(host_.host.table(), {8, 4, 28, 2}, {}, scratch_.path().string());
  const robot::RobotSample frame = plain.read(sample(69));
  const PolicySample got = frames().read(sample(69));
  EXPECT_EQ(got.images, 2);
  EXPECT_EQ(got.tokens, std::vector<int64_t>(frame.prompt.begin(), frame.prompt.end()));
  EXPECT_EQ(got.valid, frame.valid);
  EXPECT_EQ(got.counted_columns, 4);
  ASSERT_EQ(got.actions.size(), 8u * 4);
  EXPECT_GT(got.time, 0);
  EXPECT_LE(got.time, 1);
  // x_t = t noise + (1 - t) a and u = noise - a give back the actions: a = x_t - t u.
  for (size_t i = 0; i < got.actions.size(); ++i)
    EXPECT_NEAR(got.actions[i] - got.time * got.target[i], frame.actions[i], 1e-5);
}

TEST_F(RecordedFramesTest, pixels_are_the_views_from_minus_one_to_one_patch_by_patch) {
  const robot::RobotSamples plain(host_.host.table(), {8, 4, 28, 2}, {}, scratch_.path().string());
  const robot::RobotSample frame = plain.read(sample(5));
  const PolicySample got = frames().read(sample(5));
  ASSERT_EQ(got.pixels.size(), 2u * 4 * 3 * 14 * 14);
  const auto at = [&](size_t view, int64_t channel, int64_t y, int64_t x) {
    const auto patch = static_cast<int64_t>(view) * 4 + y / 14 * 2 + x / 14;
    return got.pixels[static_cast<size_t>((patch * 3 + channel) * 196 + y % 14 * 14 + x % 14)];
  };
  for (const size_t view : {0u, 1u})
    for (int64_t y = 0; y < 28; ++y)
      for (int64_t x = 0; x < 28; ++x)
        for (int64_t channel = 0; channel < 3; ++channel)
          ASSERT_FLOAT_EQ(at(view, channel, y, x),
                          frame.views[view][static_cast<size_t>((y * 28 + x) * 3 + channel)] / 127.5f - 1);
}

TEST_F(RecordedFramesTest, chance_follows_the_seed_and_the_sample_alone) {
  const PolicySample one = frames().read(sample(5)), again = frames().read(sample(5));
  EXPECT_EQ(one.target, again.target);
  EXPECT_NE(one.target, frames(json::object(), 4).read(sample(5)).target);
  EXPECT_NE(one.time, frames().read(sample(6)).time);
}

TEST_F(RecordedFramesTest, the_loss_counts_padding_columns_as_openpi_does_or_leaves_them_out_as_lerobot) {
  const PolicySample all = frames().read(sample(5)), own = frames({{"loss_columns", "own"}}).read(sample(5));
  EXPECT_EQ(all.counted_columns, config_.action_columns);
  EXPECT_EQ(own.counted_columns, 2);
  EXPECT_EQ(own.target, all.target);
  EXPECT_EQ(own.actions, all.actions);
  for (size_t i = 0; i < all.actions.size(); ++i) {
    const bool padding = i % 4 >= 2;  // noise over zeros
    EXPECT_EQ(padding, std::abs(all.actions[i] - all.time * all.target[i]) < 1e-6f) << i;
  }
}

TEST_F(RecordedFramesTest, augmented_pictures_follow_the_seed_the_epoch_and_the_sample_and_move_nothing_else) {
  const auto augmented = [&](uint64_t seed, uint64_t epoch, int64_t frame) {
    lf_sample of = sample(frame);
    of.epoch = epoch;
    return frames({{"augment", true}}, seed).read(of);
  };
  const PolicySample plain = frames().read(sample(5)), one = augmented(3, 0, 5);
  EXPECT_EQ(one.pixels, augmented(3, 0, 5).pixels);
  EXPECT_NE(one.pixels, plain.pixels);
  EXPECT_NE(one.pixels, augmented(4, 0, 5).pixels);
  EXPECT_NE(one.pixels, augmented(3, 1, 5).pixels);
  EXPECT_EQ(one.target, plain.target);
  EXPECT_EQ(one.time, plain.time);
  EXPECT_EQ(one.tokens, plain.tokens);
  // Each view by numbers of its own, as pictures of 28 pixels after being resized.
  const family::Draws draws(3, 5, 0);
  robot::RobotSample frame =
      robot::RobotSamples(host_.host.table(), {8, 4, 28, 2}, {}, scratch_.path().string()).read(sample(5));
  ASSERT_EQ(frame.cameras, (std::vector<std::string>{"observation.images.top", "observation.images.wrist"}));
  std::vector<float> wanted;
  for (uint64_t view = 0; view < 2; ++view) {
    std::array<double, robot::kAugmentationDraws> uniform;
    for (size_t i = 0; i < uniform.size(); ++i) uniform[i] = draws.uniform(kPictures + view * uniform.size() + i);
    robot::augment(frame.views[view], 28, robot::augmentation_of(uniform, 28, /*moves=*/view == 0));
    PolicySample rows;
    append_image(rows, config_, [&](int64_t channel, int64_t y, int64_t x) {
      return frame.views[view][static_cast<size_t>((y * 28 + x) * 3 + channel)] / 127.5f - 1;
    });
    wanted.insert(wanted.end(), rows.pixels.begin(), rows.pixels.end());
  }
  EXPECT_EQ(one.pixels, wanted);
}

TEST_F(RecordedFramesTest, what_the_config_says_of_data_is_followed) {
  const PolicySample plain = frames().read(sample(5));
  config_.ways.action_normalization = robot::Normalization::kMeanDeviation;
  const PolicySample deviations = frames().read(sample(5));
  EXPECT_NE(deviations.actions, plain.actions);
  EXPECT_EQ(deviations.tokens, plain.tokens);  // states by quantiles still
  config_.ways.action_normalization.reset();
  EXPECT_EQ(frames({{"relative_actions", true}}).read(sample(5)).actions, [&] {
    config_.ways.relative_actions = true;
    return frames().read(sample(5)).actions;
  }());
  EXPECT_THAT(test::refusal([&] { frames({{"relative_actions", false}}); }), HasSubstr("(use_relative_actions: true)"));
}

TEST_F(RecordedFramesTest, the_size_is_that_of_what_is_read) {
  const RecordedFrames frames = this->frames({{"cameras", {"observation.images.wrist"}}});
  const SampleSize size = frames.size(sample(68));
  const PolicySample got = frames.read(sample(68));
  EXPECT_EQ(size.images, 1);
  EXPECT_EQ(got.images, 1);
  EXPECT_EQ(size.tokens, static_cast<int64_t>(got.tokens.size()));
  EXPECT_EQ(size.valid_actions, 4);
  EXPECT_EQ(got.valid_actions(), 4);
}

TEST_F(RecordedFramesTest, what_does_not_fit_the_model_is_refused) {
  EXPECT_THAT(test::refusal([&] {
                frames({{"camera", "top"}});
              }),
              HasSubstr("invalid: model.options.camera: pi05 has no such option; it has cameras, "));
  config_.vocabulary = 100;
  EXPECT_THAT(test::refusal([&] { frames().read(sample(0)); }), HasSubstr("invalid: model.tokenizer: token 1"));
  config_.max_prompt_tokens = 5;
  EXPECT_THAT(test::refusal([&] { frames().size(sample(0)); }), HasSubstr("expected at most 5"));
}

}  // namespace
}  // namespace lf::pi05
