// The text model in a config.json: Llama, InternLM2, Qwen2, Qwen3, Qwen3-MoE and the text halves of Qwen-VL, in the
// layouts of transformers 5 (rope_parameters) and of published files (rope_theta and rope_scaling).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "family/json_fields.h"

namespace lf::family {

struct TextConfig {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0, rope_theta = 0, initializer_range = 0;
  std::vector<int64_t> mrope_section;  // t, h, w: halves of head_dim; empty: one position axis
  std::optional<int64_t> pad_token_id;
  bool qkv_bias = false, head_norms = false;
  // Positions from max_position_embeddings on would be turned by other angles (dynamic NTK), which is not built.
  bool bounded_positions = false;

  // Mixture of experts; num_experts 0: dense.
  int64_t num_experts = 0, num_experts_per_tok = 0, moe_intermediate_size = 0, decoder_sparse_step = 1;
  bool norm_topk_prob = true;  // the chosen experts' probabilities are divided by their sum
  std::vector<int64_t> mlp_only_layers;
  double router_aux_loss_coef = 0;

  bool is_sparse(int64_t layer) const;  // whether the layer has experts
};

// What a kind of text model is, and the numbers that its class has where a file leaves them out.
struct TextRules {
  bool qkv_bias = false, head_norms = false, experts = false;
  bool states_norm_topk = false;       // norm_topk_prob is a field, false where it is not stated; else always true
  bool own_head_size = false;          // head_dim is a field of its own, not hidden_size / heads
  bool interleaved = false;            // of mrope
  std::vector<int64_t> mrope_section;  // empty: one position axis
  bool grouped_heads = true;           // num_key_value_heads must be stated; else as many as heads where it is not
  bool states_head_size = false;       // head_dim must be stated; else hidden_size / heads where it is not
  double norm_eps = 0, theta = 0;
};

// Of config.json's model_type: llama, internlm2, qwen2, qwen3, qwen3_moe; nothing for another.
// Defaults: transformers 5.24, models/*/configuration_*.py; InternLM2: configuration_internlm2.py of its publisher.
std::optional<TextRules> text_rules(const std::string& model_type);

// A mistake of `fields` for what is wrong, for a size that is not stated, and for what would change the maths in a way
// that is not built.
TextConfig parse_text(JsonFields& fields, const TextRules& rules);

// Fields of every transformers configuration that have no part in the maths of training; quantised weights are refused.
void ignore_bookkeeping(JsonFields& fields);

inline constexpr const char* kNotBuilt = "not built";

}  // namespace lf::family
