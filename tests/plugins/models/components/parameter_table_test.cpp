// Parameter tables against the names and shapes in published files: what a table adds up to, and how it is cut.
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "components/language_decoder.h"
#include "components/vision_tower.h"
#include "plugins/models/qwen_vl/safetensors_file.h"
#include "qwen_vl/config.h"
#include "qwen_vl/family.h"

namespace lf::components {
namespace {

std::string fixture(const std::string& name) { return fmt::format("{}/fixtures/references/{}", LF_BUILD_DIR, name); }

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t count(const ParameterTable& table) {
  int64_t total = 0;
  for (const ParameterSpec& spec : table)
    if (!spec.tied_to) total += product(spec.shape);
  return total;
}

TEST(ParameterTable, names_every_tensor_of_a_published_file_once_with_its_shape) {
  for (const char* family : {"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"})
    for (const char* variant : {"-tiny", "-odd"}) {
      const std::string directory = fixture(fmt::format("{}{}", family, variant));
      const auto model = qwen_vl::compose(qwen_vl::parse_config(test::read_file(directory + "/config.json")), {});
      std::set<std::string> named;
      const auto file = test::read_safetensors(directory + "/model.safetensors");
      for (const ParameterTable& table : {parameter_table(model.vision), parameter_table(model.language)})
        for (const ParameterSpec& spec : table) {
          int64_t joined = 0;
          for (const Part& part : spec.parts) {
            joined += part.shape[0];
            if (spec.tied_to) {  // files may hold it too, under its own name
              EXPECT_EQ(part.name, "lm_head.weight");
              EXPECT_FALSE(file.contains(part.name));
              continue;
            }
            EXPECT_TRUE(named.insert(part.name).second) << part.name;
            ASSERT_TRUE(file.contains(part.name)) << directory << ": " << part.name;
            EXPECT_EQ(file.at(part.name).shape, part.shape) << part.name;
          }
          EXPECT_EQ(joined, spec.shape[0]) << spec.name;
        }
      EXPECT_EQ(named.size(), file.size());
    }
}

// Published sizes of Qwen2.5-VL-7B-Instruct: 8,292,166,656 parameters in all.
TEST(ParameterTable, of_the_published_7b_adds_up) {
  const auto model = qwen_vl::compose(qwen_vl::parse_config(R"({"model_type": "qwen2_5_vl", "vocab_size": 152064,
    "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28, "num_hidden_layers": 28,
    "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "tie_word_embeddings": false,
    "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
    "out_hidden_size": 3584, "patch_size": 14, "temporal_patch_size": 2, "spatial_merge_size": 2, "window_size": 112,
    "tokens_per_second": 2}})"),
                                      {});
  EXPECT_EQ(count(parameter_table(model.vision)) + count(parameter_table(model.language)), 8292166656);
}

TEST(ParameterTable, keeps_heads_that_share_a_key_together_when_cut) {
  LanguageDecoderConfig config;
  config.vocabulary = 100;
  config.width = 48;
  config.intermediate = 64;
  config.layers = 1;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_size = 8;
  config.qkv_bias = true;
  for (const ParameterSpec& spec : parameter_table(config)) {
    if (spec.name.find("qkv_proj") == std::string::npos) continue;
    ASSERT_EQ(spec.parts.size(), 3u);
    EXPECT_EQ(spec.parts[0].piece, 24);  // three query heads
    EXPECT_EQ(spec.parts[1].piece, 8);
    EXPECT_FALSE(spec.parts[0].copy);
    EXPECT_TRUE(spec.parts[1].copy && spec.parts[2].copy);
  }
}

TEST(ParameterTable, starts_norms_at_one_and_biases_at_zero_without_decay) {
  const auto model =
      qwen_vl::compose(qwen_vl::parse_config(test::read_file(fixture("qwen3_vl_moe-tiny") + "/config.json")), {});
  for (const ParameterTable& table : {parameter_table(model.vision), parameter_table(model.language)})
    for (const ParameterSpec& spec : table) {
      const bool bias = spec.name.ends_with("bias"), norm = spec.name.find("norm") != std::string::npos;
      EXPECT_EQ(spec.init, bias ? Init::kZeros : norm ? Init::kOnes : Init::kNormal) << spec.name;
      EXPECT_EQ(spec.decays, !bias && !norm) << spec.name;
      if (spec.init == Init::kNormal) {
        EXPECT_EQ(spec.deviation, 0.02) << spec.name;
      }
    }
}

}  // namespace
}  // namespace lf::components
