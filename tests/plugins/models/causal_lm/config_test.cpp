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

std::string refusal(const json& config) {
  return config_refusal([](const std::string& text) { parse_config(text); }, config);
}

TEST(CausalLmConfig, says_what_is_particular_to_each_type) {
  const auto parsed = [](const json& config) { return parse_config(config.dump()); };
  const CausalLmConfig llama = parsed({{"model_type", "llama"}, {"num_attention_heads", 32}, {"hidden_size", 4096}});
  EXPECT_FALSE(llama.text.qkv_bias || llama.text.head_norms || llama.tie_word_embeddings);
  EXPECT_EQ(llama.text.head_dim, 128);
  EXPECT_EQ(llama.text.num_key_value_heads, 32);
  EXPECT_TRUE(parsed({{"model_type", "qwen2"}}).text.qkv_bias);
  const CausalLmConfig qwen3 =
      parsed({{"model_type", "qwen3"}, {"hidden_size", 1024}, {"num_attention_heads", 16}, {"num_key_value_heads", 8}});
  EXPECT_TRUE(qwen3.text.head_norms);
  EXPECT_EQ(qwen3.text.head_dim, 128);  // of its own: not 1024 / 16
  const CausalLmConfig moe = parsed({{"model_type", "qwen3_moe"}, {"num_experts", 8}, {"mlp_only_layers", {1}}});
  EXPECT_EQ(moe.text.num_experts, 8);
  EXPECT_TRUE(moe.text.is_sparse(0));
  EXPECT_FALSE(moe.text.is_sparse(1));
}

TEST(CausalLmConfig, what_would_change_the_maths_is_refused_by_name) {
  const auto with = [](const char* key, const json& value, const char* type = "qwen3") {
    return refusal({{"model_type", type}, {key, value}});
  };
  EXPECT_THAT(with("hidden_act", "gelu"), HasSubstr("config.json.hidden_act"));
  EXPECT_THAT(with("attention_bias", true, "llama"), HasSubstr("attention_bias"));
  EXPECT_THAT(with("use_sliding_window", true, "qwen2"), HasSubstr("use_sliding_window"));
  EXPECT_THAT(with("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}, "llama"), HasSubstr("rope_type"));
  EXPECT_THAT(with("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}), HasSubstr("rope_scaling"));
  EXPECT_THAT(with("quantization_config", {{"quant_method", "awq"}}), HasSubstr("quantization_config"));
  EXPECT_THAT(with("norm_topk_prob", false, "qwen3_moe"), HasSubstr("norm_topk_prob"));
  EXPECT_THAT(with("num_key_value_heads", 7), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(with("num_hidden_layers", -1), HasSubstr("num_hidden_layers: expected an integer in [1, 4096]"));
  EXPECT_THAT(with("layer_types", {"sliding_attention"}), HasSubstr("layer_types"));
}

TEST(CausalLmConfig, of_another_family_is_refused_with_those_that_there_are) {
  for (const char* type : {"internlm2", "mamba", "qwen2_5_vl", ""})
    EXPECT_THAT(refusal({{"model_type", type}}), HasSubstr("llama, qwen2, qwen3 or qwen3_moe")) << type;
  EXPECT_THAT(refusal(json::object()), HasSubstr("model_type"));
  EXPECT_THAT(refusal(json::array()), HasSubstr("config.json"));
}

TEST(CausalLmConfig, with_a_field_that_nobody_knows_is_refused_unless_it_is_switched_off) {
  EXPECT_THAT(refusal({{"model_type", "llama"}, {"logit_softcap", 30.0}}),
              HasSubstr("config.json.logit_softcap = 30.0: causal_lm does not know this field"));
  const json config = {{"model_type", "llama"}, {"logit_softcap", false}, {"use_cache", true}, {"temperature", 1.0}};
  EXPECT_THAT(parse_config(config.dump()).unknown_keys, testing::ElementsAre("config.json.logit_softcap"));
}

}  // namespace
}  // namespace lf::causal_lm
