#include "family/text_config.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lf::family {
namespace {

using nlohmann::json;

constexpr const char* kRopeObjects[] = {"rope_scaling", "rope_parameters"};

struct Rope {
  double theta;
  std::vector<int64_t> section;
  bool bounded = false, section_is_sound = true;
};

// rope_parameters (transformers 5), or rope_theta and rope_scaling (published).
Rope parse_rope(JsonFields& fields, const TextRules& rules) {
  const auto states = [&](const char* name) {
    return std::any_of(std::begin(kRopeObjects), std::end(kRopeObjects), [&](const char* object) {
      const json* inner = fields.object(object);
      return inner != nullptr && inner->contains(name);
    });
  };
  Rope rope{states("rope_theta") ? rules.theta : fields.usual("rope_theta", rules.theta), rules.mrope_section};
  if (!rules.mrope_section.empty() && !states("mrope_section")) fields.usual("mrope_section", rules.mrope_section);
  rope.theta = fields.positive_number("rope_theta", rope.theta);
  fields.only("partial_rotary_factor", {1, 1.0}, kNotBuilt);
  for (const char* name : kRopeObjects) {
    const json* object = fields.object(name);
    if (object == nullptr) continue;
    JsonFields inner = fields.inside(*object, fmt::format("{}.{}", fields.place(), name));
    for (const char* type : {"type", "rope_type"}) {
      if (rules.mrope_section.empty()) {
        inner.only(type, {"default", "dynamic"}, kNotBuilt);
        rope.bounded = rope.bounded || inner.text(type, "") == "dynamic";
      } else {
        inner.only(type, {"default", "mrope"}, kNotBuilt);
      }
    }
    rope.theta = inner.positive_number("rope_theta", rope.theta);
    if (!rules.mrope_section.empty()) {
      rope.section = inner.integers("mrope_section", rope.section);
      rope.section_is_sound = rope.section_is_sound && inner.sound({"mrope_section"});
      if (inner.flag("mrope_interleaved", rules.interleaved) != rules.interleaved)
        inner.refuse("mrope_interleaved",
                     rules.interleaved ? "true for Qwen3-VL" : "false for Qwen2-VL and Qwen2.5-VL");
    }
    if (rope.bounded) inner.ignore({"factor", "original_max_position_embeddings"});
    inner.only("partial_rotary_factor", {1, 1.0}, kNotBuilt);
    inner.refuse_unread(kNotBuilt);
  }
  return rope;
}

void parse_experts(JsonFields& fields, const TextRules& rules, TextConfig& c) {
  const char* count = fields.has("num_local_experts") ? "num_local_experts" : "num_experts";
  c.num_experts = fields.size(count, JsonFields::kMostExperts);
  fields.ignore({"num_local_experts", "num_experts"});
  c.num_experts_per_tok = fields.size("num_experts_per_tok");
  if (c.num_experts_per_tok > c.num_experts)
    fields.refuse("num_experts_per_tok", fmt::format("at most the {} experts", c.num_experts), {count});
  c.moe_intermediate_size = fields.size("moe_intermediate_size");
  fields.together("moe_intermediate_size", c.moe_intermediate_size, count, c.num_experts);
  c.decoder_sparse_step = fields.positive("decoder_sparse_step", fields.usual("decoder_sparse_step", int64_t{1}));
  c.mlp_only_layers = fields.integers("mlp_only_layers", {});
  c.router_aux_loss_coef = fields.number("router_aux_loss_coef", 0.001);
  if (rules.states_norm_topk)
    c.norm_topk_prob = fields.flag("norm_topk_prob", fields.usual("norm_topk_prob", false));
  else
    fields.only("norm_topk_prob", {true}, "its class always does");
  fields.ignore({"output_router_logits"});
}

}  // namespace

bool TextConfig::is_sparse(int64_t layer) const {
  return num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 &&
         std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
}

void ignore_bookkeeping(JsonFields& fields) {
  fields.ignore({"_name_or_path",
                 "architectures",
                 "bos_token_id",
                 "eos_token_id",
                 "chunk_size_feed_forward",
                 "dtype",
                 "torch_dtype",
                 "id2label",
                 "label2id",
                 "is_encoder_decoder",
                 "output_attentions",
                 "output_hidden_states",
                 "problem_type",
                 "return_dict",
                 "transformers_version",
                 "use_cache",
                 "model_type",
                 "_attn_implementation",
                 "_attn_implementation_autoset",
                 "attn_implementation",
                 "auto_map",
                 "return_dict_in_generate"});
  // How transformers 4 generates and labels, which its files repeat in every part (configuration_utils.py).
  fields.ignore({"max_length",
                 "min_length",
                 "do_sample",
                 "early_stopping",
                 "num_beams",
                 "num_beam_groups",
                 "diversity_penalty",
                 "temperature",
                 "top_k",
                 "top_p",
                 "typical_p",
                 "repetition_penalty",
                 "length_penalty",
                 "no_repeat_ngram_size",
                 "encoder_no_repeat_ngram_size",
                 "num_return_sequences",
                 "output_scores",
                 "bad_words_ids",
                 "suppress_tokens",
                 "begin_suppress_tokens",
                 "forced_bos_token_id",
                 "forced_eos_token_id",
                 "remove_invalid_values",
                 "exponential_decay_length_penalty",
                 "sep_token_id",
                 "decoder_start_token_id",
                 "task_specific_params",
                 "finetuning_task",
                 "tokenizer_class",
                 "prefix",
                 "torchscript",
                 "tf_legacy_loss",
                 "use_bfloat16"});
  fields.only("quantization_config", {}, kNotBuilt);
}

std::optional<TextRules> text_rules(const std::string& model_type) {
  TextRules rules;
  rules.norm_eps = 1e-6;
  rules.theta = 10000;
  if (model_type == "llama" || model_type == "internlm2") {
    rules.own_head_size = model_type == "llama";
    rules.grouped_heads = false;
  } else if (model_type == "qwen2") {
    rules.qkv_bias = true;
  } else if (model_type == "qwen3") {
    rules.head_norms = rules.own_head_size = rules.states_head_size = true;
  } else if (model_type == "qwen3_moe") {
    rules.head_norms = rules.own_head_size = rules.experts = rules.states_norm_topk = true;
  } else {
    return std::nullopt;
  }
  return rules;
}

TextConfig parse_text(JsonFields& fields, const TextRules& rules) {
  TextConfig c;
  c.qkv_bias = rules.qkv_bias;
  c.head_norms = rules.head_norms;
  c.vocab_size = fields.size("vocab_size");
  c.hidden_size = fields.size("hidden_size");
  c.intermediate_size = fields.size("intermediate_size");
  c.num_hidden_layers = fields.size("num_hidden_layers", JsonFields::kMostLayers);
  c.num_attention_heads = fields.size("num_attention_heads");
  c.num_key_value_heads = rules.grouped_heads ? fields.size("num_key_value_heads")
                                              : fields.positive("num_key_value_heads", c.num_attention_heads);
  const int64_t even = c.hidden_size / c.num_attention_heads;
  c.head_dim = rules.states_head_size ? fields.size("head_dim") : fields.positive("head_dim", even);
  if (!rules.own_head_size && (c.head_dim != even || c.hidden_size % c.num_attention_heads != 0))
    fields.refuse("num_attention_heads", fmt::format("a divisor of hidden_size {}", c.hidden_size),
                  {"hidden_size", "head_dim"});
  fields.together("head_dim", c.head_dim, "num_attention_heads", c.num_attention_heads);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fields.refuse("num_key_value_heads", fmt::format("a divisor of num_attention_heads {}", c.num_attention_heads),
                  {"num_attention_heads"});
  if (c.head_dim % 2 != 0 && fields.has("head_dim"))
    fields.refuse("head_dim", "an even number", {"hidden_size", "num_attention_heads"});
  else if (c.head_dim % 2 != 0)
    fields.complain("head_dim",
                    fmt::format("{}.head_dim: expected an even number, got hidden_size {} / num_attention_heads {} = "
                                "{}; correct one of the two",
                                fields.place(), c.hidden_size, c.num_attention_heads, c.head_dim),
                    {"hidden_size", "num_attention_heads"});
  c.rms_norm_eps = fields.positive_number("rms_norm_eps", fields.usual("rms_norm_eps", rules.norm_eps));
  c.initializer_range = fields.positive_number("initializer_range", 0.02);
  c.pad_token_id = fields.integer("pad_token_id");
  if (c.pad_token_id && (*c.pad_token_id < 0 || *c.pad_token_id >= c.vocab_size))
    fields.refuse("pad_token_id", fmt::format("below vocab_size {}", c.vocab_size), {"vocab_size"});

  const Rope rope = parse_rope(fields, rules);
  c.rope_theta = rope.theta;
  c.bounded_positions = rope.bounded;
  // Counts where positions beyond it would be turned otherwise.
  c.max_position_embeddings =
      rope.bounded ? fields.size("max_position_embeddings") : fields.positive("max_position_embeddings", 1);
  c.mrope_section = rope.section;
  if (!rules.mrope_section.empty()) {
    int64_t sum = 0;
    for (const int64_t s : c.mrope_section) sum += s;
    const bool sane = c.mrope_section.size() == 3 &&
                      std::all_of(c.mrope_section.begin(), c.mrope_section.end(), [](int64_t s) { return s >= 0; });
    if (rope.section_is_sound && (!sane || sum != c.head_dim / 2))
      fields.complain("mrope_section",
                      fmt::format("{}: mrope_section: expected three numbers that add up to head_dim / 2 = {}, got "
                                  "[{}]",
                                  fields.place(), c.head_dim / 2, fmt::join(c.mrope_section, ", ")),
                      {"head_dim", "hidden_size", "num_attention_heads"});
  }

  fields.only("hidden_act", {"silu"}, kNotBuilt);
  fields.only("attention_bias", {false}, kNotBuilt);
  fields.only("mlp_bias", {false}, kNotBuilt);
  fields.only("bias", {false}, kNotBuilt);
  fields.only("attention_dropout", {0, 0.0}, kNotBuilt);
  fields.only("use_sliding_window", {false}, kNotBuilt);
  if (rules.head_norms) fields.only("sliding_window", {}, kNotBuilt);
  fields.ignore({"sliding_window", "max_window_layers"});  // without a meaning where use_sliding_window is off
  fields.ignore({"layer_types"});
  fields.ignore({"pretraining_tp"});  // how a product is cut up
  if (fields.has("layer_types") && fields.sound({"num_hidden_layers"}))
    fields.only("layer_types",
                {json(std::vector<std::string>(static_cast<size_t>(c.num_hidden_layers), "full_attention"))},
                kNotBuilt);
  if (rules.experts) parse_experts(fields, rules, c);
  return c;
}

}  // namespace lf::family
