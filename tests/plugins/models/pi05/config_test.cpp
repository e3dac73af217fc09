// config.json: lerobot's, sizes one by one, and what is refused. Names as a checkpoint has them.
#include "pi05/config.h"

#include <cstdint>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/config_refusal.h"
#include "plugins/models/pi05/policy_case.h"

namespace lf::pi05 {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// What lerobot 0.6.1 writes for a policy with its defaults, two cameras and seven joints.
const char* const kLerobot = R"({
  "type": "pi05", "n_obs_steps": 1,
  "input_features": {"observation.images.top": {"type": "VISUAL", "shape": [3, 480, 640]},
                     "observation.images.wrist": {"type": "VISUAL", "shape": [3, 480, 640]},
                     "observation.state": {"type": "STATE", "shape": [7]}},
  "output_features": {"action": {"type": "ACTION", "shape": [7]}},
  "device": "cpu", "use_amp": false, "use_peft": false, "push_to_hub": true, "repo_id": null, "private": null,
  "tags": null, "license": null, "pretrained_path": null, "paligemma_variant": "gemma_2b",
  "action_expert_variant": "gemma_300m", "dtype": "float32", "chunk_size": 50, "n_action_steps": 50,
  "max_state_dim": 32, "max_action_dim": 32, "num_inference_steps": 10, "time_sampling_beta_alpha": 1.5,
  "time_sampling_beta_beta": 1.0, "time_sampling_scale": 0.999, "time_sampling_offset": 0.001, "min_period": 0.004,
  "max_period": 4.0, "use_relative_actions": false, "relative_exclude_joints": ["gripper"],
  "action_feature_names": null, "rtc_config": null, "image_resolution": [224, 224], "empty_cameras": 0,
  "tokenizer_max_length": 200,
  "normalization_mapping": {"VISUAL": "IDENTITY", "STATE": "QUANTILES", "ACTION": "QUANTILES"},
  "gradient_checkpointing": false, "compile_model": false, "compile_mode": "max-autotune",
  "freeze_vision_encoder": false, "train_expert_only": false, "optimizer_lr": 2.5e-05, "optimizer_betas": [0.9, 0.95],
  "optimizer_eps": 1e-08, "optimizer_weight_decay": 0.01, "optimizer_grad_clip_norm": 1.0,
  "scheduler_warmup_steps": 1000, "scheduler_decay_steps": 30000, "scheduler_decay_lr": 2.5e-06})";

json fixture() { return json::parse(test::read_file(test::reference("pi05-odd") + "/config.json")); }

std::string refusal(const json& config) {
  return config_refusal([](const std::string& text) { parse_config(text); }, config);
}

TEST(Config, of_lerobot_has_the_published_sizes) {
  const Pi05Config c = parse_config(kLerobot);
  EXPECT_EQ(c.vlm.width, 2048);
  EXPECT_EQ(c.vlm.inner, 16384);
  EXPECT_EQ(c.expert.width, 1024);
  EXPECT_EQ(c.layers, 18);
  EXPECT_EQ(c.head_size, 256);
  EXPECT_EQ(c.vocabulary, 257152);
  EXPECT_EQ(c.vision_layers, 27);
  EXPECT_EQ(c.image_rows(), 256);
  EXPECT_EQ(c.views, 2);
  EXPECT_EQ(c.action_dim, 7);
  EXPECT_EQ(c.action_columns, 32);
  EXPECT_THAT(c.remarks, testing::IsEmpty());
}

TEST(Config, may_state_its_sizes_one_by_one) {
  const Pi05Config c = parse_config(fixture().dump());
  EXPECT_EQ(c.vlm.width, 28);
  EXPECT_EQ(c.expert.inner, 26);
  EXPECT_EQ(c.vision_heads, 3);
  EXPECT_EQ(c.image_rows(), 9);
  EXPECT_EQ(c.action_dim, 7);
}

TEST(Config, that_is_wrong_or_unknown_is_refused_by_name) {
  struct Bad {
    const char* pointer;
    json value;
    const char* message;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"/type", "pi0", "config.json.type: expected \"pi05\""},
           {"/vlm/width", 30, "config.json: vlm.width: expected sizes.W, 28, got 30"},
           {"/num_heads", 0, "config.json.num_heads"},
           {"/head_dim", 7, "config.json.head_dim"},
           {"/vision/hidden_act", "gelu", "config.json: vision.hidden_act"},
           {"/vision/num_attention_heads", 4, "num_attention_heads"},
           {"/image_resolution", json::array({24, 32}), "config.json.image_resolution"},
           {"/paligemma_variant", "gemma_300m", "config.json.paligemma_variant"},
           {"/n_obs_steps", 2, "config.json.n_obs_steps"},
           {"/min_period", -1.0, "config.json.min_period"},
           {"/time_sampling_beta_beta", 2.0, "config.json.time_sampling_beta_beta"},
           {"/time_sampling_scale", 1.2, "config.json.time_sampling_offset"},
           {"/vision/use_head", true, "config.json: vision.use_head: pi05 does not know this field"},
           {"/normalization_mapping/STATE", "LOG",
            "config.json.normalization_mapping.STATE: expected IDENTITY, MEAN_STD"},
           {"/normalization_mapping/VISUAL", "MEAN_STD",
            "normalization_mapping.VISUAL: expected IDENTITY (others are not"},
           {"/use_relative_actions", "yes", "config.json.use_relative_actions"},
           {"/relative_exclude_joints", "gripper", "config.json.relative_exclude_joints: expected a list of names"},
           {"/use_peft", true, "config.json.use_peft"},
           {"/use_delta_joint_actions", true,
            "config.json.use_delta_joint_actions = true: pi05 does not know this field"},
           {"/peft_config", json{{"r", 4}}, "config.json.peft_config"},
           {"/attention_sink", 4, "config.json.attention_sink = 4: pi05 does not know this field"},
       }) {
    json config = fixture();
    config[json::json_pointer(bad.pointer)] = bad.value;
    EXPECT_THAT(refusal(config), HasSubstr(bad.message)) << bad.pointer;
  }
}

TEST(Config, must_state_every_size_or_name_it) {
  const auto parse = [](const std::string& text) { parse_config(text); };
  expect_stated(parse, json::parse(kLerobot), {"/chunk_size", "/max_action_dim", "/image_resolution"});
  json config = json::parse(kLerobot);
  config.erase("paligemma_variant");
  EXPECT_THAT(
      config_mistakes(parse, config),
      testing::UnorderedElementsAre(
          HasSubstr("vlm.width"), HasSubstr("vlm.mlp_dim"), HasSubstr("config.json.depth"), HasSubstr("num_heads"),
          HasSubstr("num_kv_heads"), HasSubstr("config.json.head_dim"), HasSubstr("vocab_size"),
          HasSubstr("vision.hidden_size"), HasSubstr("vision.intermediate_size"), HasSubstr("vision.num_hidden_layers"),
          HasSubstr("vision.num_attention_heads"), HasSubstr("vision.patch_size")));
  config = json::parse(kLerobot);
  config.erase("action_expert_variant");
  EXPECT_THAT(config_mistakes(parse, config),
              testing::UnorderedElementsAre(HasSubstr("action_expert.width"), HasSubstr("action_expert.mlp_dim")));
}

TEST(Config, with_many_mistakes_tells_each_once_and_nothing_that_follows_from_another) {
  json config = json::parse(kLerobot);
  config["max_action_dim"] = 0;  // the action's length would be compared with it
  config["image_resolution"] = {24, 32};
  config["min_period"] = -1.0;
  config["n_obs_steps"] = 2;
  config["vision"] = {{"num_attention_heads", 7}, {"use_head", true}};
  config["normalization_mapping"] = {{"STATE", "LOG"}, {"VISUAL", "MEAN_STD"}};
  config["relative_exclude_joints"] = "gripper";
  config["attention_sink"] = 4;
  EXPECT_THAT(config_mistakes([](const std::string& text) { parse_config(text); }, config),
              testing::UnorderedElementsAre(
                  HasSubstr("config.json.max_action_dim"), HasSubstr("config.json.image_resolution"),
                  HasSubstr("config.json.min_period"), HasSubstr("config.json.n_obs_steps"),
                  HasSubstr("config.json: vision.num_attention_heads"), HasSubstr("config.json: vision.use_head"),
                  HasSubstr("normalization_mapping.STATE"), HasSubstr("normalization_mapping.VISUAL"),
                  HasSubstr("relative_exclude_joints"), HasSubstr("attention_sink")));
}

TEST(Config, tells_what_it_takes_for_numbers_that_are_left_out) {
  json config = json::parse(kLerobot);
  config.erase("min_period");
  config.erase("tokenizer_max_length");
  family::Findings findings;
  parse_config(config.dump(), findings);
  EXPECT_EQ(told(findings),
            "config.json: left out and taken as the reference's class has them: tokenizer_max_length "
            "200, min_period 0.004\n");
}

TEST(Config, remarks_what_has_no_effect) {
  json config = json::parse(kLerobot);
  config["later_switch"] = false;
  EXPECT_THAT(parse_config(config.dump()).remarks,
              testing::ElementsAre("config.json.later_switch is not known to pi05 and has no effect"));
}

TEST(Config, says_how_states_and_actions_are_prepared) {
  const Pi05Config plain = parse_config(fixture().dump());
  EXPECT_FALSE(plain.ways.state_normalization || plain.ways.action_normalization || plain.ways.relative_actions);
  json config = json::parse(kLerobot);
  config["normalization_mapping"] = {{"VISUAL", "IDENTITY"}, {"STATE", "MEAN_STD"}, {"ACTION", "QUANTILE10"}};
  config["use_relative_actions"] = true;
  config["relative_exclude_joints"] = {"jaw", "lid"};
  config["action_feature_names"] = {"a", "b"};
  const robot::ModelWays ways = parse_config(config.dump()).ways;
  EXPECT_EQ(ways.state_normalization, robot::Normalization::kMeanDeviation);
  EXPECT_EQ(ways.action_normalization, robot::Normalization::kInnerQuantiles);
  EXPECT_EQ(ways.relative_actions, true);
  EXPECT_THAT(ways.relative_exclude.value(), testing::ElementsAre("jaw", "lid"));
  EXPECT_THAT(ways.action_names, testing::ElementsAre("a", "b"));
  config["normalization_mapping"] = {{"ACTION", "MIN_MAX"}};  // lerobot leaves what is not mapped as it is
  EXPECT_EQ(parse_config(config.dump()).ways.state_normalization, robot::Normalization::kNone);
  EXPECT_EQ(parse_config(config.dump()).ways.action_normalization, robot::Normalization::kRange);
}

TEST(Config, names_cameras_in_the_files_order_and_counts_empty_ones_once) {
  std::string text = kLerobot;
  const std::string top = "observation.images.top", aft = "observation.images.zenith";
  text.replace(text.find(top), top.size(), aft);
  Pi05Config c = parse_config(text);
  EXPECT_THAT(c.ways.views, testing::ElementsAre(aft, "observation.images.wrist"));
  const std::string none = "\"empty_cameras\": 0", state = "\"observation.state\"";
  text.replace(text.find(none), none.size(), "\"empty_cameras\": 2");
  c = parse_config(text);
  EXPECT_EQ(c.views, 4);
  text.insert(text.find(state),
              "\"observation.images.empty_camera_0\": {\"type\": \"VISUAL\", \"shape\": [3, 224, 224]}, ");
  c = parse_config(text);
  EXPECT_EQ(c.views, 4);
  EXPECT_THAT(c.ways.views, testing::ElementsAre(aft, "observation.images.wrist"));
}

TEST(Config, says_what_lerobot_freezes) {
  json config = json::parse(kLerobot);
  config["freeze_vision_encoder"] = true;
  Pi05Config c = parse_config(config.dump());
  EXPECT_TRUE(c.tower_frozen);
  EXPECT_FALSE(c.prefix_frozen);
  EXPECT_THAT(c.remarks, testing::ElementsAre(HasSubstr("freeze_vision_encoder: the tower is frozen")));
  config["train_expert_only"] = true;
  c = parse_config(config.dump());
  EXPECT_TRUE(c.tower_frozen && c.prefix_frozen);
  EXPECT_THAT(c.remarks, testing::ElementsAre(HasSubstr("train_expert_only: tower and prefix are frozen")));
}

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() : folder_(testing::TempDir() + "pi05_names") { std::filesystem::create_directories(folder_); }
  ~Checkpoint() override { std::filesystem::remove_all(folder_); }
  Naming with(const std::vector<std::string>& names) const {
    json header = json::object();
    for (const std::string& name : names)
      header[name] = {{"dtype", "F32"}, {"shape", json::array({0})}, {"data_offsets", json::array({0, 0})}};
    const std::string text = header.dump();
    const uint64_t size = text.size();
    std::ofstream out(folder_ + "/model.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out << text;
    out.close();
    return naming_of(folder_);
  }
  std::string folder_;
};

TEST_F(Checkpoint, decides_what_tensors_are_called) {
  const Naming published = naming_of(test::reference("pi05-tiny"));
  EXPECT_EQ(published.outer, "");
  EXPECT_EQ(published.tower, "vision_tower.vision_model.");
  EXPECT_EQ(published.table, "lm_head.weight");
  EXPECT_TRUE(published.expert_head);
  const std::string model = "model.paligemma_with_expert.paligemma.model.";
  const Naming saved = with({"model.action_in_proj.weight", model + "vision_tower.post_layernorm.weight",
                             model + "language_model.embed_tokens.weight"});
  EXPECT_EQ(saved.outer, "model.");
  EXPECT_EQ(saved.tower, "vision_tower.");
  EXPECT_EQ(saved.table, "model.language_model.embed_tokens.weight");
  EXPECT_FALSE(saved.expert_head);
  EXPECT_FALSE(saved.spare_head);
  const std::string head = "model.paligemma_with_expert.paligemma.lm_head.weight";
  EXPECT_TRUE(with({"model.action_in_proj.weight", head, model + "language_model.embed_tokens.weight"}).spare_head);
}

}  // namespace
}  // namespace lf::pi05
