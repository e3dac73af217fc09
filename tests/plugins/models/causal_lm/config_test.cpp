// config.json of Llama, Qwen2, Qwen3 and Qwen3-MoE text models.
#include "causal_lm/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/config_refusal.h"

namespace lf::causal_lm {
namespace {

using nlohmann::json;
using testing::HasSubstr;

void parse(const std::string& text) { parse_config(text); }

std::string refusal(const json& config) { return config_refusal(&parse, config); }

// All that a file of the type must state, and `more`.
json sized(const char* type, const json& more = json::object()) {
  json config = {
      {"model_type", type},     {"vocab_size", 512},        {"hidden_size", 64},          {"intermediate_size", 128},
      {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},   {"head_dim", 16},
      {"num_experts", 8},       {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}};
  if (std::string(type) != "qwen3_moe")
    for (const char* name : {"num_experts", "num_experts_per_tok", "moe_intermediate_size"}) config.erase(name);
  config.update(more);
  return config;
}

TEST(CausalLmConfig, says_what_is_particular_to_each_type) {
  const auto parsed = [](const json& config) { return parse_config(config.dump()); };
  json of_llama = sized("llama", {{"num_attention_heads", 32}, {"hidden_size", 4096}});
  for (const char* name : {"head_dim", "num_key_value_heads"}) of_llama.erase(name);
  const CausalLmConfig llama = parsed(of_llama);
  EXPECT_FALSE(llama.text.qkv_bias || llama.text.head_norms || llama.tie_word_embeddings);
  EXPECT_EQ(llama.text.head_dim, 128);
  EXPECT_EQ(llama.text.num_key_value_heads, 32);
  EXPECT_TRUE(parsed(sized("qwen2")).text.qkv_bias);
  const CausalLmConfig qwen3 =
      parsed(sized("qwen3", {{"hidden_size", 1024}, {"num_attention_heads", 16}, {"head_dim", 128}}));
  EXPECT_TRUE(qwen3.text.head_norms);
  EXPECT_EQ(qwen3.text.head_dim, 128);  // of its own: not 1024 / 16
  const CausalLmConfig moe = parsed(sized("qwen3_moe", {{"mlp_only_layers", {1}}}));
  EXPECT_EQ(moe.text.num_experts, 8);
  EXPECT_TRUE(moe.text.is_sparse(0));
  EXPECT_FALSE(moe.text.is_sparse(1));
  EXPECT_FALSE(moe.text.norm_topk_prob);  // transformers' configuration_qwen3_moe.py
  EXPECT_TRUE(parsed(sized("qwen3_moe", {{"norm_topk_prob", true}})).text.norm_topk_prob);
}

TEST(CausalLmConfig, what_would_change_the_maths_is_refused_by_name) {
  const auto with = [](const char* key, const json& value, const char* type = "qwen3") {
    return refusal(sized(type, {{key, value}}));
  };
  EXPECT_THAT(with("hidden_act", "gelu"), HasSubstr("config.json.hidden_act"));
  EXPECT_THAT(with("attention_bias", true, "llama"), HasSubstr("attention_bias"));
  EXPECT_THAT(with("use_sliding_window", true, "qwen2"), HasSubstr("use_sliding_window"));
  EXPECT_THAT(with("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "llama"), HasSubstr("rope_type"));
  EXPECT_THAT(with("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}), HasSubstr("rope_scaling"));
  EXPECT_THAT(with("quantization_config", {{"quant_method", "awq"}}), HasSubstr("quantization_config"));
  EXPECT_THAT(with("num_key_value_heads", 7), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(with("num_hidden_layers", -1), HasSubstr("num_hidden_layers: expected an integer in [1, 4096]"));
  EXPECT_THAT(with("layer_types", {"sliding_attention"}), HasSubstr("layer_types"));
}

TEST(CausalLmConfig, of_sizes_that_cannot_be_multiplied_is_refused_by_the_two_of_them) {
  EXPECT_EQ(
      refusal(sized("qwen3", {{"num_attention_heads", 1 << 20}, {"num_key_value_heads", 1}, {"head_dim", 1 << 20}})),
      "config.json.head_dim: expected at most 1024, as num_attention_heads x head_dim counts up to 1073741824, got "
      "1048576");
  EXPECT_THAT(refusal(sized("qwen3_moe", {{"num_experts", 1 << 16}, {"moe_intermediate_size", 1 << 15}})),
              HasSubstr("config.json.moe_intermediate_size: expected at most 16384, as num_experts x "));
  EXPECT_THAT(refusal(sized("qwen3_moe", {{"mlp_only_layers", {uint64_t{1} << 63}}})),
              HasSubstr("config.json.mlp_only_layers: expected a list of integers in [-1099511627776, 1099511627776]"));
}

TEST(CausalLmConfig, of_heads_of_an_odd_size_is_refused_by_the_fields_that_make_it) {
  json config = sized("llama", {{"hidden_size", 33}, {"num_attention_heads", 1}, {"num_key_value_heads", 1}});
  config.erase("head_dim");
  EXPECT_EQ(
      refusal(config),
      "config.json.head_dim: expected an even number, got hidden_size 33 / num_attention_heads 1 = 33; correct one "
      "of the two");
  config["head_dim"] = 7;
  EXPECT_EQ(refusal(config), "config.json.head_dim: expected an even number, got 7");
}

TEST(CausalLmConfig, must_state_every_size) {
  const std::vector<std::string> all = {"/vocab_size", "/hidden_size", "/intermediate_size", "/num_hidden_layers",
                                        "/num_attention_heads"};
  for (const char* type : {"llama", "qwen2", "qwen3", "qwen3_moe"}) expect_stated(&parse, sized(type), all);
  for (const char* type : {"qwen2", "qwen3", "qwen3_moe"}) expect_stated(&parse, sized(type), {"/num_key_value_heads"});
  expect_stated(&parse, sized("qwen3"), {"/head_dim"});
  expect_stated(&parse, sized("qwen3_moe"), {"/num_experts", "/num_experts_per_tok", "/moe_intermediate_size"});
}

TEST(CausalLmConfig, tells_the_numbers_that_it_takes_for_those_left_out) {
  family::Findings findings;
  parse_config(sized("qwen3_moe").dump(), findings);
  EXPECT_EQ(told(findings),
            "config.json: left out and taken as the reference's class has them: rms_norm_eps 1e-06, "
            "rope_theta 10000.0, decoder_sparse_step 1, norm_topk_prob false\n");
}

TEST(CausalLmConfig, of_another_family_is_refused_with_those_that_there_are) {
  for (const char* type : {"internlm2", "mamba", "qwen2_5_vl", ""})
    EXPECT_THAT(refusal({{"model_type", type}}), HasSubstr("llama, qwen2, qwen3 or qwen3_moe")) << type;
  EXPECT_THAT(refusal(json::object()), HasSubstr("model_type"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("config.json"));
}

TEST(CausalLmConfig, with_a_field_that_nobody_knows_is_refused_unless_it_is_switched_off) {
  EXPECT_THAT(refusal(sized("llama", {{"logit_softcap", 30.0}})),
              HasSubstr("config.json.logit_softcap = 30.0: causal_lm does not know this field"));
  const json config = sized("llama", {{"logit_softcap", false}, {"use_cache", true}, {"temperature", 1.0}});
  EXPECT_THAT(parse_config(config.dump()).unknown_keys, testing::ElementsAre("config.json.logit_softcap"));
}

}  // namespace
}  // namespace lf::causal_lm
