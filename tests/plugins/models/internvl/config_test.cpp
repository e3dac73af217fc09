// config.json of both layouts.
#include "internvl/config.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/config_refusal.h"
#include "plugins/models/qwen_vl/safetensors_file.h"

namespace lf::internvl {
namespace {

using nlohmann::json;

json fixture(const std::string& family, const char* config) {
  return json::parse(test::read_file(std::string(LF_BUILD_DIR) + "/fixtures/references/" + family + "/" + config));
}

std::string refusal(json config, const std::function<void(json&)>& change) {
  change(config);
  return config_refusal([](const std::string& text) { parse_config(text); }, config);
}

TEST(InternVlConfig, both_layouts_of_every_fixture_say_the_same_and_no_key_is_unknown) {
  for (const char* family : {"internvl25", "internvl3", "internvl35", "internvl35_moe"})
    for (const char* variant : {"-tiny", "-odd"}) {
      SCOPED_TRACE(std::string(family) + variant);
      const InternVlConfig ours = parse_config(fixture(std::string(family) + variant, "config.json").dump());
      const InternVlConfig theirs = parse_config(fixture(std::string(family) + variant, "config_hub.json").dump());
      EXPECT_TRUE(ours.unknown_keys.empty()) << ours.unknown_keys.front();
      EXPECT_TRUE(theirs.unknown_keys.empty()) << theirs.unknown_keys.front();
      EXPECT_EQ(ours.layout, Layout::kTransformers);
      EXPECT_EQ(theirs.layout, Layout::kOriginal);
      EXPECT_EQ(ours.image_token_id, theirs.image_token_id);
      EXPECT_EQ(ours.tile_size, theirs.tile_size);
      EXPECT_EQ(ours.tile_tokens(), theirs.tile_tokens());
      EXPECT_EQ(ours.merge, theirs.merge);
      EXPECT_EQ(ours.tie_word_embeddings, theirs.tie_word_embeddings);
      EXPECT_EQ(ours.text.head_dim, theirs.text.head_dim);
      EXPECT_EQ(ours.text.rope_theta, theirs.text.rope_theta);
      EXPECT_EQ(ours.text.qkv_bias, theirs.text.qkv_bias);
      EXPECT_EQ(ours.text.num_experts, theirs.text.num_experts);
      EXPECT_EQ(ours.vision.rms_norm, theirs.vision.rms_norm);
      EXPECT_EQ(ours.vision.query_key_norms, theirs.vision.query_key_norms);
      EXPECT_EQ(ours.vision.qkv_bias, theirs.vision.qkv_bias);
      EXPECT_EQ(ours.vision.hidden_size, theirs.vision.hidden_size);
    }
}

TEST(InternVlConfig, what_would_change_the_maths_is_refused_by_its_name) {
  const json hf = fixture("internvl3-tiny", "config.json"), hub = fixture("internvl25-tiny", "config_hub.json");
  const std::vector<std::tuple<json, std::string, std::function<void(json&)>>> wrong = {
      {hf, "vision_feature_layer", [](json& c) { c["vision_feature_layer"] = -2; }},
      {hf, "use_mean_pooling", [](json& c) { c["vision_config"]["use_mean_pooling"] = false; }},
      {hf, "norm_type", [](json& c) { c["vision_config"]["norm_type"] = "batch_norm"; }},
      {hf, "attention_dropout", [](json& c) { c["vision_config"]["attention_dropout"] = 0.1; }},
      {hf, "image_size",
       [](json& c) {
         c["vision_config"]["image_size"] = {28, 56};
       }},
      {hf, "downsample_ratio", [](json& c) { c["downsample_ratio"] = 0.3; }},
      {hf, "downsample_ratio", [](json& c) { c["downsample_ratio"] = 1e-300; }},
      {hf, "image_size: expected one size in [1, 16384]",
       [](json& c) {
         c["vision_config"]["image_size"] = {1 << 20, 1 << 20};
       }},
      {hub, "image_size: expected an integer in [1, 16384]",
       [](json& c) { c["vision_config"]["image_size"] = 1 << 20; }},
      {hub, "force_image_size: expected an integer in [1, 16384]", [](json& c) { c["force_image_size"] = 1 << 20; }},
      {hf, "vision_config.hidden_size: expected at most 268435456, as 4 patches",
       [](json& c) { c["vision_config"]["hidden_size"] = 1 << 30; }},
      {hub, "max_dynamic_patch: expected an integer in [1, 4096]", [](json& c) { c["max_dynamic_patch"] = 1 << 20; }},
      {hub, "min_dynamic_patch: expected an integer in [1, 4096]", [](json& c) { c["min_dynamic_patch"] = 4097; }},
      {hf, "model_type", [](json& c) { c["text_config"]["model_type"] = "mamba"; }},
      {hf, "image_token_id", [](json& c) { c["image_token_id"] = 100000; }},
      {hub, "ps_version", [](json& c) { c["ps_version"] = "v1"; }},
      {hub, "select_layer", [](json& c) { c["select_layer"] = -4; }},
      {hub, "quantization_config",
       [](json& c) {
         c["quantization_config"] = {{"bits", 4}};
       }},
      {hub, "rope_type",
       [](json& c) {
         c["llm_config"]["rope_scaling"] = {{"rope_type", "yarn"}};
       }},
      {hf, "config.json.novel = 2: internvl does not know this field", [](json& c) { c["novel"] = 2; }},
      {hf, "config.json: text_config.novel = true", [](json& c) { c["text_config"]["novel"] = true; }},
      {hub, "config.json: vision_config.novel = \"a\"", [](json& c) { c["vision_config"]["novel"] = "a"; }},
      {hub, "use_moe", [](json& c) { c["vision_config"]["use_moe"] = true; }},
  };
  for (const auto& [config, name, change] : wrong) EXPECT_THAT(refusal(config, change), testing::HasSubstr(name));
}

TEST(InternVlConfig, must_state_every_size) {
  const auto parse = [](const std::string& text) { parse_config(text); };
  const std::vector<std::string> tower = {"/vision_config/hidden_size",
                                          "/vision_config/num_hidden_layers",
                                          "/vision_config/num_attention_heads",
                                          "/vision_config/intermediate_size",
                                          "/vision_config/image_size",
                                          "/vision_config/patch_size",
                                          "/downsample_ratio"};
  for (const char* file : {"config.json", "config_hub.json"})
    expect_stated(parse, fixture("internvl3-tiny", file), tower);
  expect_stated(parse, fixture("internvl3-tiny", "config.json"),
                {"/text_config/num_hidden_layers", "/text_config/vocab_size"});
  expect_stated(parse, fixture("internvl25-tiny", "config_hub.json"),
                {"/llm_config/num_hidden_layers", "/llm_config/hidden_size"});
}

TEST(InternVlConfig, with_many_mistakes_tells_each_once_and_nothing_that_follows_from_another) {
  json config = fixture("internvl3-tiny", "config.json");
  config["text_config"]["vocab_size"] = 0;  // the picture's token would be compared with it
  config["text_config"]["hidden_act"] = "gelu";
  config["vision_config"]["patch_size"] = {14, 15};  // the tile, too
  config["vision_config"]["norm_type"] = "batch_norm";
  config["downsample_ratio"] = 0.3;
  config["novel"] = 2;
  EXPECT_THAT(config_mistakes([](const std::string& text) { parse_config(text); }, config),
              testing::UnorderedElementsAre(
                  testing::HasSubstr("text_config.vocab_size"), testing::HasSubstr("text_config.hidden_act"),
                  testing::HasSubstr("vision_config.patch_size"), testing::HasSubstr("vision_config.norm_type"),
                  testing::HasSubstr("config.json.downsample_ratio"), testing::HasSubstr("config.json.novel = 2")));
}

// As transformers' convert_internvl_weights_to_hf.py and OpenGVLab's converter for 3.5 write them: the tower's fields
// under their new names with the authors' initializer_factor left beside them, the decoder's as they were.
TEST(InternVlConfig, of_the_published_hf_directories_is_read_whole) {
  const json small = {{"architectures", {"InternVisionModel"}},
                      {"attention_bias", true},
                      {"attention_dropout", 0.0},
                      {"dropout", 0.0},
                      {"hidden_act", "gelu"},
                      {"hidden_dropout_prob", 0.0},
                      {"hidden_size", 1024},
                      {"image_size", {448, 448}},
                      {"initializer_factor", 0.1},
                      {"initializer_range", 1e-10},
                      {"intermediate_size", 4096},
                      {"layer_norm_eps", 1e-06},
                      {"layer_scale_init_value", 0.1},
                      {"model_type", "internvl_vision"},
                      {"norm_type", "layer_norm"},
                      {"num_attention_heads", 16},
                      {"num_channels", 3},
                      {"num_hidden_layers", 24},
                      {"patch_size", {14, 14}},
                      {"projection_dropout", 0.0},
                      {"torch_dtype", "bfloat16"},
                      {"use_absolute_position_embeddings", true},
                      {"use_mask_token", false},
                      {"use_mean_pooling", true},
                      {"use_qk_norm", false}};
  json large = small;
  large.update(json{{"attention_bias", false},
                    {"hidden_size", 3200},
                    {"intermediate_size", 12800},
                    {"norm_type", "rms_norm"},
                    {"num_attention_heads", 25},
                    {"num_hidden_layers", 45},
                    {"use_qk_norm", true}});
  const json scaling = {{"factor", 2.0}, {"rope_type", "dynamic"}, {"type", "dynamic"}};
  const json common = {{"bos_token_id", 1},
                       {"hidden_act", "silu"},
                       {"initializer_range", 0.02},
                       {"rms_norm_eps", 1e-06},
                       {"rope_theta", 1e6},
                       {"torch_dtype", "bfloat16"},
                       {"max_position_embeddings", 32768},
                       {"use_cache", true},
                       {"attention_dropout", 0.0}};
  json qwen2 = common, llama = common, qwen3 = common;
  qwen2.update(json{{"_name_or_path", "InternVL3-38B"},
                    {"architectures", {"Qwen2ForCausalLM"}},
                    {"hidden_size", 5120},
                    {"intermediate_size", 27648},
                    {"max_window_layers", 70},
                    {"model_type", "qwen2"},
                    {"moe_config", nullptr},
                    {"num_attention_heads", 40},
                    {"num_hidden_layers", 64},
                    {"num_key_value_heads", 8},
                    {"rope_scaling", scaling},
                    {"sliding_window", nullptr},
                    {"use_bfloat16", true},
                    {"use_sliding_window", false},
                    {"vocab_size", 151674}});
  llama.update(json{{"architectures", {"InternLM2ForCausalLM"}},
                    {"attention_bias", false},
                    {"attn_implementation", "eager"},
                    {"head_dim", 128},
                    {"hidden_size", 2048},
                    {"intermediate_size", 8192},
                    {"mlp_bias", false},
                    {"model_type", "llama"},
                    {"num_attention_heads", 16},
                    {"num_hidden_layers", 24},
                    {"num_key_value_heads", 8},
                    {"pretraining_tp", 1},
                    {"rope_scaling", scaling},
                    {"vocab_size", 92553}});
  qwen3.update(json{{"architectures", {"Qwen3ForCausalLM"}},
                    {"attention_bias", false},
                    {"debug", false},
                    {"ep_size", 1},
                    {"head_dim", 128},
                    {"hidden_size", 4096},
                    {"intermediate_size", 12288},
                    {"max_window_layers", 36},
                    {"micro_forward", false},
                    {"model_type", "qwen3"},
                    {"num_attention_heads", 32},
                    {"num_hidden_layers", 36},
                    {"num_key_value_heads", 8},
                    {"rope_scaling", nullptr},
                    {"skip_checkpoint", false},
                    {"sliding_window", nullptr},
                    {"tie_word_embeddings", false},
                    {"use_deepep", false},
                    {"use_sliding_window", false},
                    {"vocab_size", 151936}});
  for (const json& tower : {small, large})
    for (const auto& [text, image_token] : {std::pair{qwen2, 151667}, {llama, 92546}, {qwen3, 151671}}) {
      SCOPED_TRACE(tower["hidden_size"].dump() + text["model_type"].dump());
      const json published = {{"architectures", {"InternVLForConditionalGeneration"}},
                              {"downsample_ratio", 0.5},
                              {"image_seq_length", 256},
                              {"image_token_id", image_token},
                              {"model_type", "internvl"},
                              {"projector_hidden_act", "gelu"},
                              {"text_config", text},
                              {"torch_dtype", "bfloat16"},
                              {"transformers_version", "4.52.0.dev0"},
                              {"vision_config", tower},
                              {"vision_feature_layer", -1},
                              {"vision_feature_select_strategy", "default"}};
      ASSERT_EQ(refusal(published, [](json&) {}), "accepted");
      const InternVlConfig config = parse_config(published.dump());
      EXPECT_EQ(config.vision.hidden_size, tower["hidden_size"].get<int64_t>());
      EXPECT_EQ(config.vision.layer_scale, 0.1);
      EXPECT_EQ(config.vision.rms_norm, tower["norm_type"] == "rms_norm");
      EXPECT_EQ(config.vision.query_key_norms, tower["use_qk_norm"].get<bool>());
      EXPECT_EQ(config.text.num_hidden_layers, text["num_hidden_layers"].get<int64_t>());
      EXPECT_EQ(config.tile_tokens(), 256);
    }
}

// Published InternVL3 files name experts of towers that have none, and all that transformers 4 knows of generation.
TEST(InternVlConfig, with_experts_that_are_switched_off_and_bookkeeping_is_read) {
  EXPECT_EQ(
      refusal(fixture("internvl3-tiny", "config_hub.json"),
              [](json& c) {
                c["vision_config"].update(json{{"use_moe", false}, {"num_experts", 8}, {"moe_output_scale", 4.0}});
                c["llm_config"].update(json{{"temperature", 1.0}, {"top_k", 50}, {"use_bfloat16", true}});
              }),
      "accepted");
}

// transformers issue 48659: a grid that the ratio does not divide loses patches there in silence.
TEST(InternVlConfig, a_tile_whose_patches_the_pixel_shuffle_does_not_divide_is_refused) {
  EXPECT_THAT(refusal(fixture("internvl3-tiny", "config.json"),
                      [](json& c) {
                        c["vision_config"]["image_size"] = {21, 21};
                      }),
              testing::HasSubstr("would drop patches"));
}

TEST(InternVlConfig, dynamic_rotation_bounds_the_positions) {
  json config = fixture("internvl25-tiny", "config_hub.json");
  EXPECT_FALSE(parse_config(config.dump()).text.bounded_positions);
  config["llm_config"]["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  EXPECT_TRUE(parse_config(config.dump()).text.bounded_positions);
}

}  // namespace
}  // namespace lf::internvl
