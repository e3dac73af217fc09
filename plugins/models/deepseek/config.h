// A DeepSeek-V3 or V3.2 model as its config.json says it, whichever generation wrote the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "family/findings.h"

namespace lf::deepseek {

struct YarnConfig {
  double factor = 1, beta_fast = 32, beta_slow = 1, mscale = 0, mscale_all_dim = 0;
  std::optional<double> attention_factor;
  int64_t original_positions = 0;
  bool truncate = true;
};

struct IndexerConfig {
  int64_t heads = 0, size = 0, top_k = 0;
  bool interleaved = false;  // rotation by neighbours, as GLM's have it
};

struct DeepseekConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
  int64_t q_lora_rank = 0;  // 0: none
  int64_t kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0, rope_theta = 0, initializer_range = 0;
  std::optional<YarnConfig> yarn;
  std::optional<int64_t> pad_token_id, bos_token_id, eos_token_id;
  std::optional<IndexerConfig> indexer;  // V3.2

  // Mixture of experts.
  int64_t n_routed_experts = 0, n_shared_experts = 0, moe_intermediate_size = 0, num_experts_per_tok = 0;
  int64_t n_group = 1, topk_group = 1;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1;
  std::vector<bool> sparse_layers;  // by layer

  std::optional<int64_t> num_nextn_predict_layers;  // nothing: the file does not say

  // Keys that the file has and this code does not know; the caller says so once.
  std::vector<std::string> unknown_keys;
};

// Reads both layouts: transformers 5 (rope_parameters, mlp_layer_types) and published checkpoints (rope_theta and
// rope_scaling, first_k_dense_replace). What may be left out has the reference's values (transformers 5.24,
// models/deepseek_v3*/configuration_*.py). Mistakes are what is wrong, sizes that are not stated
// (family/json_fields.h), and what would change the maths in a way that is not built: other activations, attention bias
// or dropout, other rope types, other scoring functions, tied embeddings. FP8 weights with blocks of 128 x 128 are
// read. Throws sdk::Failure(LF_E_INVALID) for another model_type, after which nothing could be judged.
DeepseekConfig parse_config(std::string_view config_json, family::Findings& findings);
// Throws all mistakes as one sdk::Failure(LF_E_INVALID).
DeepseekConfig parse_config(std::string_view config_json);

// Whether a model folder's weights hold the prediction module that stands after `layers` layers: what counts where
// config.json does not say. Reads names only. False where there is no such folder.
bool holds_prediction_module(const std::string& folder, int64_t layers);

}  // namespace lf::deepseek
