// Against what lerobot made of the same directory (tools/robot_data/record_expected.py).
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pi05/data/prompt.h"
#include "pi05/data/relative_actions.h"
#include "pusht.h"

namespace lf::robot {
namespace {

using nlohmann::json;
using testing::FloatNear;
using testing::Pointwise;

constexpr int64_t kCell = 8;  // pixels of a side over which colours were averaged

// Rounding in single precision, of numbers up to 512.
constexpr float kRounding = 2e-4f;
// Of the mean of 64 bytes, decoded and converted by two builds of FFmpeg, which interpolate colours differently: 1.7
// seen at edges. From one frame to the next cells change by tens.
constexpr float kColour = 2.5f;

std::vector<float> numbers(const json& list) { return list.get<std::vector<float>>(); }

// [H, W, 3] of bytes -> means of cells, as recorded.
std::vector<float> cells(const std::vector<uint8_t>& rgb, int64_t height, int64_t width) {
  std::vector<float> out;
  for (int64_t row = 0; row < height; row += kCell)
    for (int64_t column = 0; column < width; column += kCell)
      for (int64_t channel = 0; channel < 3; ++channel) {
        int64_t sum = 0;
        for (int64_t y = row; y < row + kCell; ++y)
          for (int64_t x = column; x < column + kCell; ++x)
            sum += rgb[static_cast<size_t>((y * width + x) * 3 + channel)];
        out.push_back(static_cast<float>(sum) / (kCell * kCell));
      }
  return out;
}

// The two columns of an action that are the data set's own.
std::vector<float> own_columns(const std::vector<float>& actions) {
  std::vector<float> out;
  for (size_t i = 0; i < actions.size(); i += 4) {
    out.insert(out.end(), {actions[i], actions[i + 1]});
    EXPECT_EQ(actions[i + 2], 0);
    EXPECT_EQ(actions[i + 3], 0);
  }
  return out;
}

class RecordedTest : public testing::Test {
 protected:
  EpisodeReader reader(const RobotOptions& options, RobotShape shape = test::small_shape()) {
    return EpisodeReader(host_.host.table(), media_, test::robot_fixture("pusht").string(), shape, options);
  }
  std::vector<float> actions(const EpisodeReader& reader, int64_t frame, std::vector<uint8_t>* valid = nullptr) {
    std::vector<float> out;
    std::vector<uint8_t> ignored;
    reader.actions(reader.moment(frame), out, valid != nullptr ? *valid : ignored);
    return own_columns(out);
  }

  const json expected_ = test::read_json(test::robot_fixture("expected.json"));
  test::DecodingHost host_;
  const family::MediaAccess media_{host_.host.table()};
};

TEST_F(RecordedTest, states_tasks_and_chunks_with_their_padding_are_lerobots) {
  const EpisodeReader reader = this->reader(test::plain_options());
  ASSERT_GE(expected_["frames"].size(), 5u);
  int64_t padded = 0;
  for (const json& frame : expected_["frames"]) {
    const EpisodeReader::Moment moment = reader.moment(frame["frame"]);
    EXPECT_EQ(reader.task(moment), frame["task"]);
    EXPECT_EQ(reader.normalized_state(moment), numbers(frame["state"]));
    std::vector<uint8_t> valid;
    EXPECT_EQ(actions(reader, frame["frame"], &valid), numbers(frame["actions"])) << frame["frame"];
    for (size_t t = 0; t < valid.size(); ++t) EXPECT_EQ(valid[t], 1 - frame["is_pad"][t].get<int>()) << t;
    EXPECT_EQ(reader.valid_actions(moment), std::count(valid.begin(), valid.end(), 1));
    padded += std::count(valid.begin(), valid.end(), 0);
  }
  EXPECT_GT(padded, 7);
}

TEST_F(RecordedTest, pictures_of_both_cameras_are_the_frames_at_their_time_stamps) {
  RobotShape shape = test::small_shape();
  shape.image_size = 96;  // the top camera's own size
  const EpisodeReader reader = this->reader(test::plain_options(), shape);
  for (const json& frame : expected_["frames"]) {
    const auto views = reader.views(reader.moment(frame["frame"]));
    EXPECT_EQ(reader.present_views(reader.moment(frame["frame"])), 2);
    EXPECT_THAT(cells(views[0], 96, 96), Pointwise(FloatNear(kColour), numbers(frame["top"]))) << frame["frame"];
    // 64 x 48 fills the width: 72 rows between 12 black ones, half as large again, so that two of its cells are three.
    const std::vector<float> wrist = numbers(frame["wrist"]), got = cells(views[1], 96, 96);
    for (size_t i = 0; i < got.size(); i += i == 12 * 3 - 1 ? 10 * 12 * 3 + 1 : 1)
      ASSERT_EQ(got[i], 0) << "black above and below";
    const auto mean = [](const std::vector<float>& values) {
      double sum = 0;
      for (const float value : values) sum += value;
      return sum / static_cast<double>(values.size());
    };
    EXPECT_NEAR(mean(got) * 96 / 72, mean(wrist), 1) << frame["frame"];
  }
}

TEST_F(RecordedTest, normalised_numbers_and_prompts_are_those_of_lerobots_processor) {
  RobotOptions quantiles, deviations;
  deviations.state_normalization = deviations.action_normalization = Normalization::kMeanDeviation;
  const EpisodeReader by_quantiles = reader(quantiles), by_deviations = reader(deviations);
  for (const json& frame : expected_["frames"]) {
    const EpisodeReader::Moment moment = by_quantiles.moment(frame["frame"]);
    const std::vector<float> state = by_quantiles.normalized_state(moment);
    EXPECT_THAT(state, Pointwise(FloatNear(1e-5f), numbers(frame["quantile_state"])));
    EXPECT_THAT(actions(by_quantiles, frame["frame"]), Pointwise(FloatNear(1e-5f), numbers(frame["quantile_actions"])));
    EXPECT_THAT(actions(by_deviations, frame["frame"]),
                Pointwise(FloatNear(1e-5f), numbers(frame["deviation_actions"])));
    EXPECT_EQ(prompt_text(by_quantiles.task(moment), state), frame["prompt"]);
  }
}

TEST_F(RecordedTest, relative_actions_are_lerobots) {
  RobotOptions options = test::plain_options();
  options.relative_actions = true;
  const EpisodeReader reader = this->reader(options);
  for (const json& frame : expected_["frames"])
    EXPECT_THAT(actions(reader, frame["frame"]), Pointwise(FloatNear(kRounding), numbers(frame["relative_actions"])));
}

TEST_F(RecordedTest, statistics_of_relative_actions_are_lerobots_as_far_as_its_histogram_tells) {
  RobotOptions options;
  options.relative_actions = true;
  const EpisodeReader normalized = reader(options);
  options.state_normalization = options.action_normalization = Normalization::kNone;
  const EpisodeReader plain = reader(options);
  const json& statistics = expected_["relative_statistics"];
  const std::vector<float> low = numbers(statistics["q01"]), high = numbers(statistics["q99"]);
  for (const json& frame : expected_["frames"]) {
    const std::vector<float> got = actions(normalized, frame["frame"]), raw = actions(plain, frame["frame"]);
    // lerobot's quantiles come from a histogram, so a share of the range apart.
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], 2 * (raw[i] - low[i % 2]) / (high[i % 2] - low[i % 2]) - 1, 0.05);
  }
}

TEST_F(RecordedTest, many_threads_read_what_one_reads) {
  const EpisodeReader reader = this->reader({});
  const int64_t last = expected_["frames"].back()["frame"];
  std::vector<std::vector<std::vector<uint8_t>>> alone, together(static_cast<size_t>(last) + 1);
  for (int64_t frame = 0; frame <= last; frame += 5) alone.push_back(reader.views(reader.moment(frame)));
  const EpisodeReader fresh = this->reader({});
  std::vector<std::thread> threads;
  for (int64_t first = 0; first < 4; ++first)
    threads.emplace_back([&, first] {
      for (int64_t frame = 5 * first; frame <= last; frame += 20)
        together[static_cast<size_t>(frame / 5)] = fresh.views(fresh.moment(frame));
    });
  for (std::thread& thread : threads) thread.join();
  together.resize(alone.size());
  EXPECT_EQ(together, alone);
}

}  // namespace
}  // namespace lf::robot
