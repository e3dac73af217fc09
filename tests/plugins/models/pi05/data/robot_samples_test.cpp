#include "pi05/data/robot_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../text/small_tokenizer.h"
#include "pi05/data/prompt.h"
#include "pusht.h"
#include "refusal.h"

namespace lf::robot {
namespace {

using nlohmann::json;
using test::refusal;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class RobotSamplesTest : public testing::Test {
 protected:
  RobotSamplesTest() { write_tokenizer(test::small_tokenizer()); }

  void write_tokenizer(const json& tokenizer) { std::ofstream(scratch_.path() / "tokenizer.json") << tokenizer; }
  std::unique_ptr<RobotSamples> samples(const RobotOptions& options = {}, RobotShape shape = test::small_shape()) {
    return std::make_unique<RobotSamples>(host_.host.table(), shape, options, scratch_.path().string());
  }
  lf_sample sample(int64_t frame, const std::string& fixture = "pusht") {
    json_ = json{{"robot", {{"directory", test::robot_fixture(fixture).string()}, {"frame", frame}}}}.dump();
    lf_sample out = sdk::with_header<lf_sample>();
    out.json = sdk::str(json_);
    out.place = sdk::str("pusht:frame 9");
    return out;
  }
  static std::string spelt(const std::vector<text::TokenId>& ids) {  // of the small tokenizer's bytes
    std::string out;
    for (const text::TokenId id : ids)
      out += id < 256 ? std::string(1, static_cast<char>(id)) : id == 256 ? "ab" : id == 257 ? "abc" : "<special>";
    return out;
  }

  test::ScratchFolder scratch_;
  test::DecodingHost host_;
  const json expected_ = test::read_json(test::robot_fixture("expected.json"));
  std::string json_;
};

TEST_F(RobotSamplesTest, a_frame_becomes_pictures_prompt_and_actions_and_its_size_is_known_before) {
  const auto samples = this->samples();
  for (const json& frame : expected_["frames"]) {
    const RobotSample got = samples->read(sample(frame["frame"]));
    EXPECT_EQ(spelt(got.prompt), frame["prompt"]);
    EXPECT_EQ(got.actions.size(), 8u * 4);
    EXPECT_FLOAT_EQ(got.actions[0], frame["quantile_actions"][0].get<float>());
    EXPECT_EQ(got.own_dims, 2);
    const RobotSampleSize size = samples->size(sample(frame["frame"]));
    EXPECT_EQ(size.views, std::count_if(got.views.begin(), got.views.end(), [](const auto& v) { return !v.empty(); }));
    EXPECT_EQ(size.views, 2);
    EXPECT_EQ(size.prompt_tokens, static_cast<int64_t>(got.prompt.size()));
    EXPECT_EQ(size.valid_actions, std::count(got.valid.begin(), got.valid.end(), 1));
    EXPECT_EQ(size.own_dims, 2);
  }
}

TEST_F(RobotSamplesTest, a_begin_token_comes_first_and_the_state_can_be_left_out) {
  json tokenizer = test::small_tokenizer();
  tokenizer["added_tokens"] = {{{"id", 258}, {"content", "<bos>"}, {"special", true}}};
  write_tokenizer(tokenizer);
  RobotOptions options;
  options.state_in_prompt = false;
  EXPECT_EQ(spelt(samples(options)->read(sample(0)).prompt), "<special>push the T onto the green target\n");
}

TEST_F(RobotSamplesTest, a_directory_with_pictures_in_its_tables_is_read_alike) {
  const RobotSample got = samples()->read(sample(0, "pusht_embedded"));
  EXPECT_EQ(got.views[0].size(), 32u * 32 * 3);
  EXPECT_THAT(spelt(got.prompt), StartsWith("Task: push the T onto the green target, State: "));
}

TEST_F(RobotSamplesTest, a_sample_that_is_of_no_use_is_named_by_its_place) {
  RobotOptions options;
  options.max_prompt_tokens = 20;
  EXPECT_THAT(refusal([&] { samples(options)->read(sample(0)); }),
              AllOf(StartsWith("data: pusht:frame 9: a prompt of "), HasSubstr("expected at most 20")));
  EXPECT_THAT(refusal([&] { samples()->size(sample(72)); }),
              AllOf(StartsWith("data: pusht:frame 9: "), HasSubstr("frame 72 of 72")));
  lf_sample conversation = sample(0);
  conversation.json = sdk::str(R"({"messages": []})");
  EXPECT_EQ(refusal([&] { samples()->size(conversation); }),
            "data: pusht:frame 9: expected a frame of a LeRobot directory; set data.path to one");
}

TEST_F(RobotSamplesTest, what_no_sample_would_escape_is_the_jobs_fault) {
  EXPECT_THAT(refusal([&] { samples()->size(sample(0, "nowhere")); }), StartsWith("invalid: "));
  const test::SpoiltDirectory spoilt("pusht");
  std::filesystem::remove(spoilt.data());
  lf_sample lost = sample(0);
  const std::string json_text = json{{"robot", {{"directory", spoilt.path().string()}, {"frame", 0}}}}.dump();
  lost.json = sdk::str(json_text);
  EXPECT_THAT(refusal([&] { samples()->size(lost); }), StartsWith("data: pusht:frame 9: " + spoilt.data().string()));
  RobotOptions options;
  options.relative_actions = true;  // whose statistics need every frame
  EXPECT_THAT(refusal([&] { samples(options)->size(lost); }), StartsWith("invalid: " + spoilt.data().string()));
  options.cameras = {"a", "b", "c"};
  EXPECT_THAT(refusal([&] { samples(options); }), HasSubstr("invalid: model.options.cameras: expected at most 2"));
  std::filesystem::remove(scratch_.path() / "tokenizer.json");
  EXPECT_THAT(refusal([&] { samples()->size(sample(0)); }), StartsWith("invalid: model.tokenizer: "));
  EXPECT_THAT(refusal([&] { samples()->open_tokenizer(); }), StartsWith("invalid: model.tokenizer: "));
}

}  // namespace
}  // namespace lf::robot
