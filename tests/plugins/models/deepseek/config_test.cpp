// config.json and [model.options] of DeepSeek models.
#include "deepseek/config.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "deepseek/family.h"
#include "lf/plugin_sdk/guard.hpp"
#include "plugins/models/config_refusal.h"

namespace lf::deepseek {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json published() {
  return json::parse(std::ifstream(std::string(LF_SOURCE_DIR) + "/configs/models/deepseek_v32/config.json"));
}

std::string refusal(const json& config) {
  return config_refusal([](const std::string& text) { parse_config(text); }, config);
}

Options options_of(const json& options, const DeepseekConfig& config) {
  return family::read_whole([&](family::Findings& findings) { return parse_options(options, config, findings); });
}

TEST(DeepseekConfig, the_published_sizes_give_671_billion_parameters_and_the_module_beside_them) {
  const DeepseekConfig config = parse_config(published().dump());
  EXPECT_TRUE(config.unknown_keys.empty()) << config.unknown_keys.front();
  double main = 0, module = 0;
  for (const auto& spec : components::parameter_table(compose(config, true, {}))) {
    double n = spec.tied_to ? 0 : 1;
    for (const int64_t side : spec.shape) n *= static_cast<double>(side);
    const bool of_module = spec.name.find("layers.61.") != std::string::npos;
    if (spec.name.find("indexer") == std::string::npos) (of_module ? module : main) += n;
  }
  EXPECT_NEAR(main / 1e9, 671, 1);     // arXiv:2412.19437
  EXPECT_NEAR(module / 1e9, 11.5, 1);  // 14 with its copies of table and head, which are tied here
}

TEST(DeepseekConfig, more_layers_and_experts_than_any_model_has_are_refused_at_once) {
  json config = published();
  config["num_hidden_layers"] = 10'000'000;
  EXPECT_THAT(refusal(config), HasSubstr("num_hidden_layers: expected an integer in [1, 4096]"));
  config = published();
  config["n_routed_experts"] = 10'000'000;
  EXPECT_THAT(refusal(config), HasSubstr("n_routed_experts: expected an integer in [1, 65536]"));
}

TEST(DeepseekConfig, yarn_sets_frequencies_and_the_scale_of_scores) {
  const auto decoder = compose(parse_config(published().dump()), true, {});
  const double m = 0.1 * std::log(40.0) + 1;
  EXPECT_NEAR(decoder.attention.scale, m * m / std::sqrt(192.0), 1e-12);
  const auto plain = nn::plain_rotary(64, 10000).frequency;
  EXPECT_FLOAT_EQ(decoder.rotary.frequency.front(), plain.front());
  EXPECT_FLOAT_EQ(decoder.rotary.frequency.back(), plain.back() / 40);
  EXPECT_EQ(decoder.rotary.amplitude, 1);
}

TEST(DeepseekConfig, the_indexers_rotation_is_what_the_config_says) {
  const auto pairs = [](const json& more) {
    json config = published();
    config.update(more);
    return compose(parse_config(config.dump()), true, {}).index_pairs;
  };
  EXPECT_EQ(pairs(json::object()), nn::RotaryPairs::kHalves);
  EXPECT_EQ(pairs({{"indexer_rope_interleave", false}}), nn::RotaryPairs::kHalves);
  EXPECT_EQ(pairs({{"indexer_rope_interleave", true}}), nn::RotaryPairs::kNeighbours);
}

TEST(DeepseekConfig, what_would_change_the_maths_is_refused_by_name) {
  const auto with = [](const char* key, const json& value) {
    json config = published();
    config[key] = value;
    return refusal(config);
  };
  EXPECT_THAT(with("hidden_act", "gelu"), HasSubstr("hidden_act"));
  EXPECT_THAT(with("scoring_func", "softmax"), HasSubstr("scoring_func"));
  EXPECT_THAT(with("attention_bias", true), HasSubstr("attention_bias"));
  EXPECT_THAT(with("n_group", 7), HasSubstr("n_group"));
  EXPECT_THAT(with("num_experts_per_tok", 200), HasSubstr("num_experts_per_tok"));
  EXPECT_THAT(with("q_lora_rank", nullptr), HasSubstr("q_lora_rank"));
  EXPECT_THAT(with("num_nextn_predict_layers", 2), HasSubstr("num_nextn_predict_layers"));
  EXPECT_THAT(with("model_type", "llama"), HasSubstr("model_type"));
  EXPECT_THAT(with("novel", 1), HasSubstr("config.json.novel = 1: deepseek does not know this field"));
  EXPECT_EQ(with("novel", false), "accepted");
  EXPECT_THAT(with("rope_scaling", {{"type", "linear"}, {"factor", 2}}), HasSubstr("rope_scaling.type"));
  EXPECT_THAT(with("quantization_config", {{"quant_method", "awq"}}), HasSubstr("quant_method"));
  EXPECT_EQ(with("quantization_config", {{"quant_method", "fp8"},
                                         {"fmt", "e4m3"},
                                         {"activation_scheme", "dynamic"},
                                         {"weight_block_size", {128, 128}}}),
            "accepted");
}

TEST(DeepseekConfig, must_state_every_size) {
  json config = published();
  const auto parse = [](const std::string& text) { parse_config(text); };
  expect_stated(parse, config,
                {"/vocab_size", "/hidden_size", "/intermediate_size", "/num_hidden_layers", "/num_attention_heads",
                 "/q_lora_rank", "/kv_lora_rank", "/qk_nope_head_dim", "/qk_rope_head_dim", "/v_head_dim",
                 "/n_routed_experts", "/n_shared_experts", "/moe_intermediate_size", "/num_experts_per_tok", "/n_group",
                 "/topk_group", "/index_n_heads", "/index_head_dim", "/index_topk"});
  config.erase("first_k_dense_replace");
  EXPECT_THAT(refusal(config), HasSubstr("config.json.first_k_dense_replace: expected an integer of at least 0, as it "
                                         "must be stated"));
  config = published();
  for (const char* name : {"rope_theta", "rms_norm_eps", "routed_scaling_factor"}) config.erase(name);
  family::Findings findings;
  parse_config(config.dump(), findings);
  EXPECT_EQ(told(findings),
            "config.json: left out and taken as the reference's class has them: rms_norm_eps 1e-06, "
            "rope_theta 10000.0, routed_scaling_factor 2.5\n");
}

TEST(DeepseekConfig, and_its_options_tell_all_mistakes_at_once_and_nothing_that_follows_from_another) {
  json config = published();
  config["n_routed_experts"] = 0;  // groups and the experts of a token would be compared with it
  config["num_hidden_layers"] = "many";
  config["mlp_layer_types"] = {"sparse"};
  config["qk_rope_head_dim"] = 63;
  config["head_dim"] = 64;
  config["scoring_func"] = "softmax";
  config["rope_scaling"]["beta_fast"] = -1;
  config["novel"] = 1;
  const auto parse = [](const std::string& text) {
    family::Findings findings;
    const DeepseekConfig config = parse_config(text, findings);
    parse_options({{"indexer", "on"}, {"mtp_loss", -1}, {"indexr", "warmup"}}, config, findings);
    findings.refuse_if_any();
  };
  EXPECT_THAT(config_mistakes(parse, config),
              testing::UnorderedElementsAre(
                  HasSubstr("config.json.n_routed_experts"), HasSubstr("config.json.num_hidden_layers"),
                  HasSubstr("config.json.qk_rope_head_dim: expected an even number"),
                  HasSubstr("config.json.scoring_func"), HasSubstr("config.json.rope_scaling.beta_fast"),
                  HasSubstr("config.json.novel = 1"), HasSubstr("model.options.indexer: expected"),
                  HasSubstr("model.options.mtp_loss"), HasSubstr("model.options.indexr: deepseek has no such option")));
}

TEST(DeepseekOptions, the_stages_say_what_is_trained) {
  const DeepseekConfig config = parse_config(published().dump());
  const auto trained = [&](const json& options) {
    std::pair<int, int> counts;  // of the indexers, of the rest
    for (const auto& spec : components::parameter_table(compose(config, true, options_of(options, config))))
      if (!spec.buffer) ++(spec.name.find("indexer") == std::string::npos ? counts.second : counts.first);
    return counts;
  };
  const auto sparse = trained(json::object());
  EXPECT_EQ(sparse.first, 62 * 5);
  EXPECT_EQ(trained({{"indexer", "warmup"}}), std::pair(62 * 5, 0));
  EXPECT_EQ(trained({{"indexer", "frozen"}}), std::pair(0, sparse.second));
  EXPECT_EQ(trained({{"indexer", "off"}}), std::pair(0, sparse.second));
  EXPECT_EQ(trained({{"bias_update_rate", 0}}).second, sparse.second - 59);
}

TEST(DeepseekOptions, an_unknown_one_is_named_beside_those_there_are) {
  const DeepseekConfig config = parse_config(published().dump());
  try {
    options_of({{"indexr", "warmup"}}, config);
    FAIL() << "accepted";
  } catch (const sdk::Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("model.options.indexr"));
    EXPECT_THAT(failure.what(), HasSubstr("indexer_loss"));
  }
}

}  // namespace
}  // namespace lf::deepseek
