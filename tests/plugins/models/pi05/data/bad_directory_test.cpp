// Directories that are not as they should be: one error each, and no more samples lost than need be.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pusht.h"
#include "refusal.h"
#include "tables.h"

namespace lf::robot {
namespace {

using nlohmann::json;
using test::refusal;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kTopCamera = "observation.images.top";
constexpr int64_t kEpisode = 24;  // frames of each of the three episodes

class BadDirectoryTest : public testing::Test {
 protected:
  std::unique_ptr<EpisodeReader> open(const RobotOptions& options = test::plain_options(),
                                      RobotShape shape = test::small_shape()) {
    return std::make_unique<EpisodeReader>(host_.host.table(), media_, spoilt_.path().string(), shape, options);
  }
  std::string opening(const RobotOptions& options = test::plain_options(), RobotShape shape = test::small_shape()) {
    return refusal([&] { open(options, shape); });
  }
  // What of a frame is refused: its numbers, else its pictures' headers, else their pixels.
  std::string reading(int64_t frame) {
    const auto reader = open();
    return refusal([&] {
      const EpisodeReader::Moment moment = reader->moment(frame);
      reader->task(moment);
      reader->present_views(moment);
      reader->views(moment);
    });
  }
  void change_info(const std::function<void(json&)>& change) { spoilt_.change_json("meta/info.json", change); }
  void change_column(const std::filesystem::path& file, const std::string& name,
                     const std::shared_ptr<arrow::Array>& values) {
    test::write_table(file, test::with_column(test::read_table(file), name, values));
  }
  std::string path(const std::string& file) { return (spoilt_.path() / file).string(); }

  const test::SpoiltDirectory spoilt_{"pusht"};
  test::DecodingHost host_;
  const family::MediaAccess media_{host_.host.table()};
};

TEST_F(BadDirectoryTest, as_it_came_it_is_good) {
  EXPECT_EQ(opening(), "");
  for (const int64_t frame : {int64_t{0}, kEpisode - 1, kEpisode, 3 * kEpisode - 1}) EXPECT_EQ(reading(frame), "");
  EXPECT_THAT(reading(3 * kEpisode), HasSubstr("data: " + spoilt_.path().string() + ": frame 72 of 72"));
}

TEST_F(BadDirectoryTest, a_directory_of_another_version_is_refused_with_what_converts_it) {
  change_info([](json& info) { info["codebase_version"] = "v2.1"; });
  EXPECT_THAT(opening(), AllOf(StartsWith("invalid: " + path("meta/info.json")),
                               HasSubstr("expected \"v3.0\", got \"v2.1\"; convert the directory with lerobot's")));
}

TEST_F(BadDirectoryTest, what_info_json_says_wrongly_is_named) {
  struct Case {
    std::function<void(json&)> change;
    const char* reason;
  };
  const json good = test::read_json(spoilt_.path() / "meta/info.json");
  for (const auto& [change, reason] : std::vector<Case>{
           {[](json& info) { info["fps"] = 0; }, "fps: expected frames per second, got 0"},
           {[](json& info) { info["total_frames"] = 99; }, "expected the 99 frames of meta/info.json, got 72"},
           {[](json& info) { info["data_path"] = "../{chunk_index}.parquet"; }, "expected a path below the directory"},
           {[](json& info) {
              info["features"]["action"]["shape"] = {2, 2};
            },
            "action: expected a vector of numbers"},
           {[](json& info) { info["features"]["action"].erase("shape"); }, "action: expected a shape of integers"},
           {[](json& info) {
              info["features"][kTopCamera]["shape"] = {96, 96, 1};
            },
            "expected a camera of 3 channels, got 1; leave it out of model.options.cameras"},
           {[](json& info) {
              info["features"][kTopCamera]["shape"] = {96, 96, 4};
            },
            "3 channels, got 4"},
           {[](json& info) {
              info["features"][kTopCamera]["shape"] = {0, 96, 3};
            },
            "got 96 x 0 pixels"},
           {[](json& info) { info["features"].erase("action"); }, "expected \"action\", got "},
           {[](json& info) { info["features"].erase("observation.state"); },
            "set model.options.state, or state_in_prompt = false"}}) {
    change_info([&](json& info) {
      info = good;
      change(info);
    });
    EXPECT_THAT(opening(), AllOf(StartsWith("invalid: " + spoilt_.path().string()), HasSubstr(reason)));
  }
}

TEST_F(BadDirectoryTest, files_of_meta_that_are_absent_are_named) {
  for (const char* file : {"meta/info.json", "meta/tasks.parquet", "meta/episodes"}) {
    const std::filesystem::path aside = spoilt_.path() / "aside";
    std::filesystem::rename(path(file), aside);
    EXPECT_THAT(opening(), StartsWith("invalid: " + path(file)));
    std::filesystem::rename(aside, path(file));
  }
  std::filesystem::remove(path("meta/stats.json"));
  EXPECT_THAT(opening({}), StartsWith("invalid: " + path("meta/stats.json")));
  EXPECT_EQ(opening(), "");  // without normalisation nothing needs it
}

TEST_F(BadDirectoryTest, statistics_that_are_missing_are_asked_for) {
  spoilt_.change_json("meta/stats.json", [](json& stats) { stats["action"].erase("q99"); });
  EXPECT_THAT(opening({}), HasSubstr("meta/stats.json: action: expected q99, got none; run lerobot's"));
}

TEST_F(BadDirectoryTest, episodes_that_do_not_follow_one_another_are_refused) {
  change_column(spoilt_.episodes(), "dataset_from_index", test::integers({0, kEpisode + 1, 2 * kEpisode}));
  EXPECT_THAT(opening(), HasSubstr("expected episode 1 to begin with frame 24, got frames 25 to 48"));
}

TEST_F(BadDirectoryTest, a_job_that_does_not_fit_the_directory_is_told_what_there_is) {
  RobotOptions options = test::plain_options();
  options.cameras = {"observation.images.side"};
  EXPECT_THAT(opening(options), HasSubstr("has no camera \"observation.images.side\", but observation.images.top, "
                                          "observation.images.wrist; \"\" is an absent view"));
  options.cameras = {"action"};
  EXPECT_THAT(opening(options), HasSubstr("has no camera \"action\""));
  RobotShape shape = test::small_shape();
  shape.action_dim = 1;
  EXPECT_THAT(opening(test::plain_options(), shape), HasSubstr("action: 2 numbers; the model's actions have 1"));
  shape = test::small_shape();
  shape.views = 1;
  EXPECT_THAT(opening(test::plain_options(), shape), HasSubstr("the model has 1 views: name those to use in"));
}

TEST_F(BadDirectoryTest, cameras_that_the_models_config_names_come_in_its_order) {
  RobotOptions options = test::plain_options();
  options.views = {"observation.images.wrist", "observation.images.side", kTopCamera};
  RobotShape shape = test::small_shape();
  shape.views = 3;
  EXPECT_EQ(open(options, shape)->cameras(), (std::vector<std::string>{"observation.images.wrist", "", kTopCamera}));
  options.views = {"observation.images.base_0_rgb", "observation.images.left_wrist_0_rgb"};
  EXPECT_THAT(opening(options),
              HasSubstr("cameras observation.images.top, observation.images.wrist; "
                        "config.json.input_features calls the model's observation.images.base_0_rgb, "
                        "observation.images.left_wrist_0_rgb: say by model.options.cameras which is"));
  options.cameras = {kTopCamera, "observation.images.wrist"};
  EXPECT_EQ(open(options)->cameras(), options.cameras);
}

TEST_F(BadDirectoryTest, relative_actions_of_a_model_whose_actions_have_other_names_are_refused) {
  RobotOptions options = test::plain_options();
  options.relative_actions = true;
  EXPECT_EQ(opening(options), "");
  const std::vector<std::string> names =
      test::read_json(spoilt_.path() / "meta/info.json")["features"]["action"]["names"];
  options.action_names = names;
  EXPECT_EQ(opening(options), "");
  options.action_names = {names[1], names[0]};
  EXPECT_THAT(opening(options), AllOf(HasSubstr("meta/info.json: features.action: names "),
                                      HasSubstr("; config.json.action_feature_names has "), HasSubstr("go by name")));
}

TEST_F(BadDirectoryTest, absent_views_stay_empty_in_their_places) {
  RobotOptions options = test::plain_options();
  options.cameras = {"", "observation.images.wrist", "observation.images.side"};
  options.optional_cameras = {"observation.images.side"};
  RobotShape shape = test::small_shape();
  shape.views = 3;
  const auto reader = open(options, shape);
  const auto views = reader->views(reader->moment(3));
  ASSERT_EQ(views.size(), 3u);
  EXPECT_TRUE(views[0].empty());
  EXPECT_EQ(views[1].size(), 32u * 32 * 3);
  EXPECT_TRUE(views[2].empty());
  EXPECT_EQ(reader->present_views(reader->moment(3)), 1);
  options.cameras = {"", "observation.images.side"};
  EXPECT_THAT(opening(options, shape), HasSubstr("no camera; the model needs at least one view"));
}

TEST_F(BadDirectoryTest, a_number_that_is_not_finite_spoils_the_samples_that_use_it) {
  const auto table = test::read_table(spoilt_.data());
  std::vector<float> states = test::floats_of(*table, "observation.state"), actions = test::floats_of(*table, "action");
  states[2 * 5 + 1] = std::numeric_limits<float>::quiet_NaN();
  actions[2 * 40] = std::numeric_limits<float>::infinity();
  change_column(spoilt_.data(), "observation.state", test::rows_of(states, 2));
  change_column(spoilt_.data(), "action", test::rows_of(actions, 2));
  EXPECT_EQ(reading(5), "data: " + spoilt_.data().string() + ": observation.state of frame 5: number 1 is nan");
  EXPECT_EQ(reading(6), "");
  for (int64_t frame = 30; frame < 45; ++frame)  // chunks have 8 actions
    EXPECT_EQ(reading(frame), frame < 33 || frame > 40
                                  ? ""
                                  : "data: " + spoilt_.data().string() + ": action of frame 40: number 0 is inf");
}

TEST_F(BadDirectoryTest, columns_that_are_missing_or_of_another_width_are_named) {
  const auto table = test::read_table(spoilt_.data());
  for (const char* name : {"action", "observation.state", "timestamp", "task_index", "index"}) {
    test::write_table(spoilt_.data(), test::taken(table->RemoveColumn(table->schema()->GetFieldIndex(name))));
    EXPECT_THAT(reading(0),
                StartsWith("data: " + spoilt_.data().string() + ": expected a column \"" + name + "\", got "));
  }
  test::write_table(spoilt_.data(), test::with_column(table, "action", test::rows_of(std::vector<float>(72 * 3), 3)));
  EXPECT_EQ(reading(0), "data: " + spoilt_.data().string() +
                            ": column \"action\": expected the 2 numbers of meta/info.json, got 3");
}

TEST_F(BadDirectoryTest, a_table_that_is_too_short_spoils_the_episodes_beyond_its_end) {
  test::write_table(spoilt_.data(), test::read_table(spoilt_.data())->Slice(0, 50));
  EXPECT_EQ(reading(47), "");
  EXPECT_EQ(reading(48), "data: " + spoilt_.data().string() + ": expected the 24 frames of episode 2, got 2");
}

TEST_F(BadDirectoryTest, rows_in_another_order_are_refused) {
  std::vector<int64_t> index = test::integers_of(*test::read_table(spoilt_.data()), "index");
  std::swap(index[3], index[4]);
  change_column(spoilt_.data(), "index", test::integers(index));
  EXPECT_THAT(reading(0), HasSubstr("expected frame 3 in row 3, got 4"));
}

TEST_F(BadDirectoryTest, a_task_that_is_in_no_table_is_refused) {
  std::vector<int64_t> tasks = test::integers_of(*test::read_table(spoilt_.data()), "task_index");
  tasks[7] = 12;
  change_column(spoilt_.data(), "task_index", test::integers(tasks));
  EXPECT_THAT(reading(7), HasSubstr("frame 7 has task_index 12, which meta/tasks.parquet does not"));
  EXPECT_EQ(reading(8), "");
}

TEST_F(BadDirectoryTest, a_table_that_is_absent_or_cut_off_is_named) {
  std::filesystem::resize_file(spoilt_.data(), std::filesystem::file_size(spoilt_.data()) - 9);
  EXPECT_THAT(reading(0), StartsWith("data: " + spoilt_.data().string()));
  std::filesystem::remove(spoilt_.data());
  EXPECT_THAT(reading(0), StartsWith("data: " + spoilt_.data().string()));
}

TEST_F(BadDirectoryTest, a_video_that_ends_before_the_episode_spoils_what_it_does_not_show) {
  const std::string begin = std::string("videos/") + kTopCamera + "/from_timestamp";
  const auto table = test::read_table(spoilt_.episodes());
  test::write_table(
      spoilt_.episodes(),
      test::with_column(table, begin, test::column<arrow::DoubleBuilder>(std::vector<double>{0, 2.4, 6.0})));
  EXPECT_EQ(reading(2 * kEpisode + 11), "");  // 6.0 s + 1.1 s is the last of 72 frames
  EXPECT_EQ(reading(2 * kEpisode + 12), "data: " + spoilt_.video().string() +
                                            ": frame 60 of episode 2 is at 7.2000 s, its frame 72; the video has 72");
}

TEST_F(BadDirectoryTest, a_video_of_one_frame_shows_the_first_moment_only) {
  std::filesystem::copy_file(test::robot_fixture("one_frame.mp4"), spoilt_.video(),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(reading(0), "");
  EXPECT_THAT(reading(1), HasSubstr("frame 1 of episode 0 is at 0.1000 s, its frame 1; the video has 1"));
}

TEST_F(BadDirectoryTest, a_video_that_is_absent_broken_or_of_another_size_is_named) {
  std::filesystem::copy_file(std::filesystem::path(LF_SOURCE_DIR) / "tests/fixtures/media/h264.mp4", spoilt_.video(),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(reading(0), AllOf(StartsWith("data: " + spoilt_.video().string()),
                                HasSubstr(": expected the 96 x 96 pixels of meta/info.json, got ")));
  std::filesystem::resize_file(spoilt_.video(), 100);
  EXPECT_THAT(reading(0), StartsWith("data: " + spoilt_.video().string()));
  std::filesystem::remove(spoilt_.video());
  EXPECT_THAT(reading(0), StartsWith("data: " + spoilt_.video().string()));
}

TEST_F(BadDirectoryTest, a_time_stamp_between_two_frames_is_refused) {
  std::vector<float> seconds = test::floats_of(*test::read_table(spoilt_.data()), "timestamp");
  seconds[4] += 0.04f;
  change_column(spoilt_.data(), "timestamp", test::floats(seconds));
  EXPECT_THAT(reading(4), HasSubstr("frame 4 is at 0.4400 s, 0.0400 s from the nearest of 10 frames per second"));
  EXPECT_EQ(reading(5), "");
}

}  // namespace
}  // namespace lf::robot
