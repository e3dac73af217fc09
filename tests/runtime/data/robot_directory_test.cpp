#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/dataset.h"
#include "scratch.h"

namespace lf {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class RobotDirectoryTest : public testing::Test {
 protected:
  std::filesystem::path directory(const std::string& name, const std::string& info) {
    std::filesystem::create_directories(scratch_.folder() / name / "meta");
    return scratch_.write(name + "/meta/info.json", info).parent_path().parent_path();
  }
  static DataSection section(std::vector<std::filesystem::path> paths, const std::string& format = "auto") {
    DataSection options;
    options.path = std::move(paths);
    options.format = format;
    return options;
  }
  std::string refusal(const DataSection& options, Exit exit) {
    try {
      const Dataset dataset(options);
      return "opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), exit) << error.what();
      return error.what();
    }
  }

  Scratch scratch_;
};

TEST_F(RobotDirectoryTest, each_frame_is_a_sample_beside_lines_of_other_files) {
  const auto pusht = directory("pusht", R"({"total_frames": 3})"),
             arm = directory("arm \"2\"", R"({"total_frames":2})");
  const auto lines = scratch_.write("a.jsonl", R"({"text":"words"})");
  const Dataset dataset(section({pusht, lines, arm / ""}));
  ASSERT_EQ(dataset.size(), 6u);
  EXPECT_EQ(dataset.place(2), "pusht:frame 2");
  EXPECT_EQ(json::parse(dataset.sample(2).json),
            (json{{"id", "pusht#2"}, {"robot", {{"directory", pusht.string()}, {"frame", 2}}}}));
  EXPECT_EQ(dataset.sample(3).place, "a.jsonl:1");
  EXPECT_EQ(dataset.sample(5).place, "arm \"2\":frame 1");
  EXPECT_EQ(json::parse(dataset.sample(5).json)["robot"]["frame"], 1);
  EXPECT_EQ(dataset.files()[0].format, "lerobot");
  EXPECT_TRUE(dataset.files()[0].detected);
  EXPECT_EQ(dataset.files()[1].format, "text");
}

TEST_F(RobotDirectoryTest, a_folder_asked_for_as_lerobot_has_to_be_one) {
  EXPECT_THAT(refusal(section({scratch_.folder()}, "lerobot"), Exit::kInputMissing),
              HasSubstr("meta/info.json: not there; expected a LeRobot directory"));
  EXPECT_THAT(refusal(section({scratch_.folder()}), Exit::kInputMissing),
              HasSubstr("neither *.jsonl nor meta/info.json in this folder"));
}

TEST_F(RobotDirectoryTest, one_whose_path_no_json_can_hold_is_refused_readably) {
  EXPECT_THAT(refusal(section({directory("caf\xE9", R"({"total_frames": 3})")}), Exit::kBadData),
              HasSubstr("caf\\xE9: a LeRobot directory whose path is not valid UTF-8 cannot be told to a model"));
}

TEST_F(RobotDirectoryTest, one_that_does_not_count_its_frames_is_refused) {
  for (const char* info : {R"({})", R"({"total_frames": -1})", R"({"total_frames": "many"})", R"([])"})
    EXPECT_THAT(refusal(section({directory("bad", info)}), Exit::kBadData), HasSubstr("total_frames: expected a count"))
        << info;
  EXPECT_THAT(refusal(section({directory("bad", "{")}), Exit::kBadData), HasSubstr("meta/info.json: expected JSON"));
  EXPECT_THAT(refusal(section({directory("bad", R"({"total_frames": 0})")}), Exit::kBadData),
              HasSubstr("no sample in it"));
}

}  // namespace
}  // namespace lf
