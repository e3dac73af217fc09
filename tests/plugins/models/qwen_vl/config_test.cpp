#include "qwen_vl/config.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/config_refusal.h"
#include "plugins/models/qwen_vl/safetensors_file.h"

namespace lf::test {
namespace {

using nlohmann::json;
using qwen_vl::Family;
using qwen_vl::parse_config;
using qwen_vl::QwenVlConfig;
using testing::ElementsAre;
using testing::HasSubstr;

json fixture(const std::string& directory, const std::string& file) {
  return json::parse(read_file(std::string(LF_BUILD_DIR) + "/fixtures/references/" + directory + "/" + file));
}

std::string refusal(const json& config) {
  return config_refusal([](const std::string& text) { parse_config(text); }, config);
}

// As published with Qwen2.5-VL-7B-Instruct (flat text fields).
json published_7b() {
  return json::parse(R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"], "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "vision_start_token_id": 151652, "vision_end_token_id": 151653,
    "vision_token_id": 151654, "image_token_id": 151655, "video_token_id": 151656, "hidden_act": "silu",
    "hidden_size": 3584, "initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 128000,
    "max_window_layers": 28, "model_type": "qwen2_5_vl", "num_attention_heads": 28, "num_hidden_layers": 28,
    "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.41.2", "use_cache": true,
    "use_sliding_window": false, "vocab_size": 152064, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vision_config": {"depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
      "in_chans": 3, "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
      "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "temporal_patch_size": 2}})");
}

TEST(Config, of_the_published_7b_is_read_whole) {
  const QwenVlConfig c = parse_config(published_7b().dump());
  EXPECT_EQ(c.family, Family::kQwen2_5Vl);
  EXPECT_TRUE(c.unknown_keys.empty());
  EXPECT_EQ(c.text.head_dim, 128);
  EXPECT_EQ(c.text.num_key_value_heads, 4);
  EXPECT_EQ(c.text.rope_theta, 1e6);
  EXPECT_THAT(c.text.mrope_section, ElementsAre(16, 24, 24));
  EXPECT_EQ(c.vision.hidden_size, 1280);
  EXPECT_EQ(c.vision.window_size, 112);
  EXPECT_THAT(c.vision.fullatt_block_indexes, ElementsAre(7, 15, 23, 31));
  EXPECT_EQ(c.vision.patch_columns(), 1176);
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_FALSE(c.text.pad_token_id.has_value());
}

// Of the reference's classes: 80 layers, 27 of the tower and so on, where a file does not say it.
TEST(Config, must_state_every_size) {
  const auto parse = [](const std::string& text) { parse_config(text); };
  expect_stated(
      parse, published_7b(),
      {"/vocab_size", "/intermediate_size", "/num_hidden_layers", "/num_attention_heads", "/num_key_value_heads",
       "/vision_config/depth", "/vision_config/hidden_size", "/vision_config/intermediate_size",
       "/vision_config/num_heads", "/vision_config/out_hidden_size", "/vision_config/patch_size",
       "/vision_config/temporal_patch_size", "/vision_config/spatial_merge_size", "/vision_config/window_size"});
  expect_stated(parse, fixture("qwen2_vl-tiny", "config.json"),
                {"/text_config/hidden_size", "/text_config/num_hidden_layers", "/vision_config/embed_dim",
                 "/vision_config/hidden_size", "/vision_config/depth"});
  expect_stated(parse, fixture("qwen3_vl-tiny", "config.json"),
                {"/text_config/head_dim", "/text_config/num_hidden_layers", "/vision_config/num_position_embeddings",
                 "/vision_config/depth"});
  expect_stated(parse, fixture("qwen3_vl_moe-tiny", "config.json"),
                {"/text_config/num_experts_per_tok", "/text_config/moe_intermediate_size"});
}

TEST(Config, with_many_mistakes_tells_each_once_and_nothing_that_follows_from_another) {
  json config = published_7b();
  config.erase("num_hidden_layers");
  config["hidden_size"] = "big";  // the tower's width and the heads would be compared with it
  config["num_key_value_heads"] = 3;
  config["rms_norm_eps"] = 0;
  config["hidden_act"] = "gelu";
  config["image_token_id"] = 200000;
  config["layer_types"] = {"full_attention"};  // as many as there are layers, which nobody knows
  config["vision_config"]["depth"] = -1;
  config["vision_config"]["num_heads"] = 7;
  config["vision_config"]["new_trick"] = 3;
  config["novel"] = true;
  EXPECT_THAT(config_mistakes([](const std::string& text) { parse_config(text); }, config),
              testing::UnorderedElementsAre(
                  HasSubstr("config.json.hidden_size: expected an integer"),
                  HasSubstr("config.json.num_hidden_layers: expected an integer in [1, 4096], as sizes must be stated"),
                  HasSubstr("config.json.num_key_value_heads"), HasSubstr("config.json.rms_norm_eps"),
                  HasSubstr("config.json.hidden_act"), HasSubstr("config.json.image_token_id"),
                  HasSubstr("config.json: vision_config.depth"), HasSubstr("config.json: vision_config.num_heads"),
                  HasSubstr("config.json: vision_config.new_trick = 3"), HasSubstr("config.json.novel = true")));
}

TEST(Config, of_layers_of_full_attention_that_the_tower_lacks_is_refused_by_them_and_its_depth) {
  json config = published_7b();
  config["vision_config"]["depth"] = 1;
  for (const json& layers : {json{5}, {-1}, {0, 1}}) {
    config["vision_config"]["fullatt_block_indexes"] = layers;
    EXPECT_EQ(config_refusal([](const std::string& text) { return parse_config(text); }, config),
              "config.json: vision_config.fullatt_block_indexes: expected layers from 0 to 0, of depth 1, got " +
                  layers.dump());
  }
  config["vision_config"]["fullatt_block_indexes"] = {0};
  EXPECT_THAT(parse_config(config.dump()).vision.fullatt_block_indexes, ElementsAre(0));
  config["vision_config"].erase("fullatt_block_indexes");
  EXPECT_EQ(parse_config(config.dump()).vision.depth, 1);
}

TEST(Config, tells_what_it_takes_for_numbers_that_are_left_out) {
  json config = published_7b();
  family::Findings whole, less;
  parse_config(config.dump(), whole);
  EXPECT_EQ(told(whole), "");
  for (const char* name : {"rms_norm_eps", "rope_theta", "rope_scaling"}) config.erase(name);
  config["vision_config"].erase("tokens_per_second");
  const QwenVlConfig c = parse_config(config.dump(), less);
  EXPECT_EQ(c.text.rope_theta, 1e6);
  EXPECT_EQ(
      told(less),
      "config.json: left out and taken as the reference's class has them: rms_norm_eps 1e-05, rope_theta "
      "1000000.0, mrope_section [16,24,24]\n"
      "config.json: vision_config: left out and taken as the reference's class has them: tokens_per_second 4.0\n");
}

TEST(Config, takes_the_rotation_base_that_the_file_states_whatever_is_usual) {
  for (const char* family : {"qwen2_vl-tiny", "qwen2_5_vl-tiny", "qwen3_vl-tiny", "qwen3_vl_moe-tiny"})
    for (const char* file : {"config.json", "config_hub.json"})
      for (const double base : {1e6, 5e6}) {
        const std::string text = fixture(family, file).dump();
        const size_t name = text.find(R"("rope_theta":10000.0)");
        ASSERT_NE(name, text.npos) << family << "/" << file;
        std::string changed = text;
        for (size_t at; (at = changed.find(R"("rope_theta":10000.0,"rope_type":"axial")")) != changed.npos;)
          changed.replace(at, 20, R"("rope_theta":1e4)");  // the tower's own
        for (size_t at; (at = changed.find(R"("rope_theta":10000.0)")) != changed.npos;)
          changed.replace(at, 20, R"("rope_theta":)" + std::to_string(base));
        EXPECT_EQ(parse_config(changed).text.rope_theta, base) << family << "/" << file;
      }
}

TEST(Config, of_both_generations_means_the_same) {
  for (const char* family : {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"})
    for (const char* variant : {"-tiny", "-odd"}) {
      const std::string directory = std::string(family) + variant;
      const QwenVlConfig a = parse_config(fixture(directory, "config.json").dump());
      const QwenVlConfig b = parse_config(fixture(directory, "config_hub.json").dump());
      EXPECT_EQ(a.family, b.family);
      EXPECT_EQ(a.text.hidden_size, b.text.hidden_size);
      EXPECT_EQ(a.text.head_dim, b.text.head_dim);
      EXPECT_EQ(a.text.rope_theta, b.text.rope_theta);
      EXPECT_EQ(a.text.mrope_section, b.text.mrope_section);
      EXPECT_EQ(a.text.rms_norm_eps, b.text.rms_norm_eps);
      EXPECT_EQ(a.text.num_experts, b.text.num_experts);
      EXPECT_EQ(a.text.mlp_only_layers, b.text.mlp_only_layers);
      EXPECT_EQ(a.text.router_aux_loss_coef, b.text.router_aux_loss_coef);
      EXPECT_EQ(a.text.pad_token_id, b.text.pad_token_id);
      EXPECT_EQ(a.vision.hidden_size, b.vision.hidden_size);
      EXPECT_EQ(a.vision.intermediate_size, b.vision.intermediate_size);
      EXPECT_EQ(a.vision.in_channels, b.vision.in_channels);
      EXPECT_EQ(a.vision.window_size, b.vision.window_size);
      EXPECT_EQ(a.vision.tokens_per_second, b.vision.tokens_per_second);
      EXPECT_EQ(a.vision.deepstack_visual_indexes, b.vision.deepstack_visual_indexes);
      EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings);
    }
}

TEST(Config, refuses_what_would_change_the_maths_and_names_it) {
  const auto changed = [](const std::function<void(json&)>& change) {
    json config = published_7b();
    change(config);
    return refusal(config);
  };
  EXPECT_EQ(changed([](json&) {}), "accepted");
  EXPECT_THAT(changed([](json& c) { c["use_sliding_window"] = true; }), HasSubstr("use_sliding_window"));
  EXPECT_THAT(changed([](json& c) { c["hidden_act"] = "gelu"; }), HasSubstr("config.json.hidden_act"));
  EXPECT_THAT(changed([](json& c) { c["rope_scaling"]["type"] = "yarn"; }), HasSubstr("rope_scaling.type"));
  EXPECT_THAT(changed([](json& c) { c["rope_scaling"]["factor"] = 4.0; }), HasSubstr("rope_scaling.factor"));
  EXPECT_THAT(changed([](json& c) { c["quantization_config"] = {{"bits", 4}}; }), HasSubstr("quantization_config"));
  EXPECT_THAT(changed([](json& c) { c["attention_dropout"] = 0.1; }), HasSubstr("attention_dropout"));
  EXPECT_THAT(changed([](json& c) { c["vision_config"]["hidden_act"] = "gelu"; }),
              HasSubstr("vision_config.hidden_act"));
  EXPECT_THAT(changed([](json& c) { c["layer_types"] = {"sliding_attention"}; }), HasSubstr("layer_types"));
  EXPECT_THAT(changed([](json& c) { c["model_type"] = "llama"; }), HasSubstr("\"llama\""));
}

TEST(Config, refuses_numbers_that_do_not_fit_together) {
  const auto changed = [](const std::function<void(json&)>& change) {
    json config = published_7b();
    change(config);
    return refusal(config);
  };
  EXPECT_THAT(changed([](json& c) { c["num_attention_heads"] = 30; }), HasSubstr("a divisor of hidden_size 3584"));
  EXPECT_THAT(changed([](json& c) { c["num_key_value_heads"] = 3; }), HasSubstr("a divisor of num_attention_heads 28"));
  EXPECT_THAT(changed([](json& c) { c["hidden_size"] = "big"; }),
              HasSubstr("an integer in [1, 1073741824], got \"big\""));
  EXPECT_THAT(changed([](json& c) { c["num_hidden_layers"] = -1; }), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(changed([](json& c) { c["rope_scaling"]["mrope_section"] = {16, 24}; }), HasSubstr("head_dim / 2 = 64"));
  EXPECT_THAT(changed([](json& c) { c["vision_config"]["out_hidden_size"] = 1024; }),
              HasSubstr("the text's hidden_size, 3584"));
  EXPECT_THAT(changed([](json& c) { c["vision_config"]["num_heads"] = 7; }), HasSubstr("vision_config.num_heads"));
  EXPECT_THAT(changed([](json& c) { c["image_token_id"] = 200000; }), HasSubstr("below vocab_size 152064"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("expected an object"));
}

TEST(Config, with_a_field_that_nobody_knows_is_refused_unless_it_is_switched_off) {
  json config = published_7b();
  config["vision_config"]["new_trick"] = false;
  EXPECT_THAT(parse_config(config.dump()).unknown_keys, ElementsAre("config.json: vision_config.new_trick"));
  config["vision_config"]["new_trick"] = 3;
  EXPECT_THAT(refusal(config), HasSubstr("config.json: vision_config.new_trick = 3: qwen_vl does not know this field"));
}

// As transformers 4.5x saves them: the whole of its base class in every part, and the root's tokens in the text's.
TEST(Config, with_the_bookkeeping_of_older_transformers_is_read) {
  json config = published_7b();
  const json bookkeeping = {{"temperature", 1.0},
                            {"top_k", 50},
                            {"num_beams", 1},
                            {"max_length", 20},
                            {"use_bfloat16", true},
                            {"repetition_penalty", 1.0},
                            {"pruned_heads", json::object()},
                            {"is_decoder", false}};
  config.update(bookkeeping);
  config["vision_config"].update(bookkeeping);
  EXPECT_THAT(parse_config(config.dump()).unknown_keys,
              testing::Each(testing::AnyOf(HasSubstr("pruned_heads"), HasSubstr("is_decoder"))));
}

TEST(Config, of_absurd_sizes_is_refused_at_once_naming_the_field_and_its_bounds) {
  json config = published_7b();
  config["num_hidden_layers"] = 10'000'000;
  EXPECT_EQ(refusal(config), "config.json.num_hidden_layers: expected an integer in [1, 4096], got 10000000");
  config = published_7b();
  config["vision_config"]["depth"] = int64_t{1} << 40;
  EXPECT_THAT(refusal(config), HasSubstr("config.json: vision_config.depth: expected an integer in [1, 4096]"));
  config = published_7b();
  for (const json& size : {json(uint64_t{1} << 63), json(int64_t{1} << 31), json(0), json(-1), json(1.5), json("8")}) {
    config["hidden_size"] = size;
    EXPECT_THAT(refusal(config), HasSubstr("hidden_size: expected an integer in [1, 1073741824], got " + size.dump()));
  }
}

TEST(Config, of_a_tower_that_would_have_no_width_or_more_than_counts_is_refused) {
  const json good = fixture("qwen2_vl-tiny", "config.json");
  const auto with = [&](const char* name, const json& value) {
    json config = good;
    config["vision_config"][name] = value;
    return refusal(config);
  };
  for (const json& ratio : {json(1e300), json(1e-5), json(1e9)})
    EXPECT_THAT(
        with("mlp_ratio", ratio),
        HasSubstr(
            "vision_config.mlp_ratio: expected a number that makes 1 to 1073741824 columns of embed_dim 24, got " +
            ratio.dump()));
  EXPECT_EQ(with("mlp_ratio", 1.0 / 24), "accepted");
  EXPECT_THAT(with("patch_size", 1 << 20), HasSubstr("vision_config.patch_size: expected an integer in [1, 1024]"));
  EXPECT_THAT(with("embed_dim", 1 << 30),
              HasSubstr("vision_config.embed_dim: expected at most 268435456, as 4 patches are merged into one row"));
  EXPECT_THAT(with("spatial_merge_size", 65),
              HasSubstr("vision_config.spatial_merge_size: expected an integer in [1, 64]"));
  json config = published_7b();
  config["vision_config"]["tokens_per_second"] = 1e300;
  EXPECT_THAT(refusal(config), HasSubstr("tokens_per_second: expected a number above 0 and up to 1000000"));
}

TEST(Config, without_its_tower_or_its_decoder_says_which_object_is_missing) {
  json config = published_7b();
  config.erase("hidden_size");
  EXPECT_THAT(refusal(config), HasSubstr("config.json.text_config: expected an object"));
  EXPECT_THAT(refusal(config), testing::Not(HasSubstr("vision_config")));
  const json tower_missing = {{"model_type", "qwen3_vl"}, {"text_config", {{"hidden_size", 64}}}};
  EXPECT_THAT(refusal(tower_missing), HasSubstr("config.json.vision_config: expected an object"));
  EXPECT_THAT(refusal({{"model_type", "qwen3_vl"}}), HasSubstr("config.json.text_config: expected an object"));
}

}  // namespace
}  // namespace lf::test
