// What lerobot needs to prepare a policy's inputs and to turn its actions back.
#include "pi05/data/processor_files.h"

#include <cstring>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "pusht.h"
#include "refusal.h"

namespace lf::robot {
namespace {

using nlohmann::json;
using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

std::map<std::string, std::string> by_name(const std::vector<family::SavedFile>& files) {
  std::map<std::string, std::string> out;
  for (const family::SavedFile& file : files) out[file.name] = file.bytes;
  return out;
}

// A tensor of a safetensors file.
std::vector<float> tensor(const std::string& file, const std::string& name) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  const json header = json::parse(file.substr(8, length));
  if (!header.contains(name)) return {};
  EXPECT_EQ(header[name]["dtype"], "F32");
  const size_t begin = header[name]["data_offsets"][0], end = header[name]["data_offsets"][1];
  std::vector<float> values((end - begin) / sizeof(float));
  EXPECT_EQ(header[name]["shape"], json({values.size()}));
  std::memcpy(values.data(), file.data() + 8 + length + begin, end - begin);
  return values;
}

std::string safetensors(const std::map<std::string, std::vector<float>>& tensors) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, values] : tensors) {
    const size_t bytes = values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", {values.size()}}, {"data_offsets", {data.size(), data.size() + bytes}}};
    data.append(reinterpret_cast<const char*>(values.data()), bytes);
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
}

UsedStatistics used(Normalization kind, const Normalizer& action, const Normalizer& state = {}) {
  UsedStatistics out;
  out.action = {kind, action.statistics()};
  out.state = {kind, state.statistics()};
  return out;
}

// normalize_processor.py, _apply_transform, inverse: in single precision.
float lerobot_turns_back(const json& stats, Normalization kind, float value) {
  const auto number = [&](const char* name) { return stats[name][0].get<float>(); };
  if (kind == Normalization::kMeanDeviation) return value * number("std") + number("mean");
  const auto [low, high] = range_names(kind);
  return (value + 1.0f) * (number(high) - number(low)) / 2.0f + number(low);
}

TEST(ProcessorFiles, lerobot_turns_back_what_was_trained_where_a_number_hardly_ever_changes) {
  const std::vector<std::pair<Statistics, std::vector<Normalization>>> columns = {
      {{{}, {0.05f}, {0}, {0.001f}},  // openpi issue 814
       {Normalization::kQuantiles, Normalization::kInnerQuantiles, Normalization::kRange}},
      {{{}, {0}, {512}, {512}}, {Normalization::kQuantiles, Normalization::kRange}},
      {{{}, {2}, {-3}, {4}}, {Normalization::kQuantiles}},
      {{{7}, {0}, {}, {}}, {Normalization::kMeanDeviation}},
      {{{7}, {2}, {}, {}}, {Normalization::kMeanDeviation}}};
  for (const auto& [statistics, kinds] : columns)
    for (const Normalization kind : kinds) {
      SCOPED_TRACE(name_of(kind));
      const Normalizer normalizer(statistics, kind, 0.5);
      const auto files = by_name(processor_files(used(kind, normalizer), {}));
      ASSERT_EQ(files.size(), 1u);
      const json stats = json::parse(files.at("stats.json"));
      for (const float action : {-1.6f, 0.25f, 511.0f}) {
        float value = action;
        normalizer.apply({&value, 1});
        EXPECT_NEAR(lerobot_turns_back(stats["action"], kind, value), action, 1e-4 * (1 + std::abs(action)));
      }
      // The floors are in the file: who reads it has nothing left to floor.
      EXPECT_THAT(Normalizer(read_statistics(stats, "action", 1, kind, "stats.json"), kind, 0.4).floored(),
                  testing::IsEmpty());
    }
}

class PipelinesTest : public testing::Test {
 protected:
  PipelinesTest() {
    const json features = {{"action", {{"type", "ACTION"}, {"shape", {1}}}}};
    const json map = {{"ACTION", "QUANTILES"}, {"STATE", "QUANTILES"}, {"VISUAL", "IDENTITY"}};
    write("policy_preprocessor.json",
          {{"name", "policy_preprocessor"},
           {"steps",
            {{{"registry_name", "rename_observations_processor"}, {"config", {{"rename_map", json::object()}}}},
             {{"registry_name", "relative_actions_processor"},
              {"config", {{"enabled", false}, {"exclude_joints", json::array()}, {"action_names", nullptr}}}},
             {{"registry_name", "normalizer_processor"},
              {"config", {{"eps", 1e-8}, {"features", features}, {"norm_map", map}}},
              {"state_file", "states.safetensors"}}}}});
    write("policy_postprocessor.json",
          {{"name", "policy_postprocessor"},
           {"steps",
            {{{"registry_name", "unnormalizer_processor"}, {"config", {{"features", features}, {"norm_map", map}}}},
             {{"registry_name", "absolute_actions_processor"}, {"config", {{"enabled", false}}}}}}});
    std::ofstream(scratch_.path() / "states.safetensors", std::ios::binary)
        << safetensors({{"action.q01", {1, 2, 3}},
                        {"action.max", {9}},
                        {"observation.image.mean", {5}},
                        {"observation.state.q99", {8}}});
  }
  void write(const char* name, const json& content) { std::ofstream(scratch_.path() / name) << content; }

  test::ScratchFolder scratch_;
  const Normalizer action_{{{}, {0.05f}, {0}, {0.001f}}, Normalization::kQuantiles, 0.5};
  const Normalizer state_{{{}, {1}, {-1}, {3}}, Normalization::kQuantiles, 0.5};
};

TEST_F(PipelinesTest, of_the_source_get_these_statistics_and_keep_all_else) {
  const auto files = by_name(processor_files(used(Normalization::kQuantiles, action_, state_), scratch_.path()));
  ASSERT_EQ(files.size(), 4u);  // the one that already names its state stays as it was
  const std::string& states = files.at("states.safetensors");
  EXPECT_THAT(tensor(states, "action.q01"), ElementsAre(0));
  EXPECT_THAT(tensor(states, "action.q99"), ElementsAre(0.025f));
  EXPECT_THAT(tensor(states, "action.max"), testing::IsEmpty());
  EXPECT_THAT(tensor(states, "observation.state.q99"), ElementsAre(3));
  EXPECT_THAT(tensor(states, "observation.image.mean"), ElementsAre(5));
  const std::string made = "policy_postprocessor_step_0_unnormalizer_processor.safetensors";
  EXPECT_EQ(json::parse(files.at("policy_postprocessor.json"))["steps"][0]["state_file"], made);
  EXPECT_THAT(tensor(files.at(made), "action.q99"), ElementsAre(0.025f));
  EXPECT_EQ(json::parse(files.at("stats.json"))["observation.state"]["q01"], json({-1.0}));
}

TEST_F(PipelinesTest, follow_the_way_of_normalising_and_of_relative_actions_that_was_trained) {
  UsedStatistics ways =
      used(Normalization::kMeanDeviation, Normalizer({{4}, {2}, {}, {}}, Normalization::kMeanDeviation, 1));
  ways.state.reset();  // not seen, so nothing is said of it
  ways.relative_actions = true;
  ways.relative_exclude = {"gripper"};
  ways.action_names = {"x", "gripper"};
  const auto files = by_name(processor_files(ways, scratch_.path()));
  const json before = json::parse(files.at("policy_preprocessor.json"))["steps"];
  EXPECT_EQ(before[1]["config"],
            json({{"enabled", true}, {"exclude_joints", {"gripper"}}, {"action_names", {"x", "gripper"}}}));
  EXPECT_EQ(before[2]["config"]["norm_map"],
            json({{"ACTION", "MEAN_STD"}, {"STATE", "QUANTILES"}, {"VISUAL", "IDENTITY"}}));
  EXPECT_EQ(before[2]["config"]["eps"], 1e-8);
  EXPECT_EQ(json::parse(files.at("policy_postprocessor.json"))["steps"][1]["config"]["enabled"], true);
  const std::string& states = files.at("states.safetensors");
  EXPECT_THAT(tensor(states, "action.mean"), ElementsAre(4));
  EXPECT_THAT(tensor(states, "action.q01"), testing::IsEmpty());
  EXPECT_THAT(tensor(states, "observation.state.q99"), ElementsAre(8));
}

TEST_F(PipelinesTest, that_are_not_as_lerobot_writes_them_are_refused_by_their_path) {
  const auto refused = [&] {
    return refusal([&] { processor_files(used(Normalization::kQuantiles, action_, state_), scratch_.path()); });
  };
  std::ofstream(scratch_.path() / "states.safetensors") << "short";
  EXPECT_THAT(refused(), testing::AllOf(HasSubstr("states.safetensors"), HasSubstr("a safetensors file")));
  std::filesystem::remove(scratch_.path() / "states.safetensors");
  EXPECT_THAT(refused(), HasSubstr("states.safetensors: expected a file that can be read"));
  write("policy_preprocessor.json", json::array());
  EXPECT_THAT(refused(), HasSubstr("policy_preprocessor.json: expected an object with \"steps\""));
}

}  // namespace
}  // namespace lf::robot
