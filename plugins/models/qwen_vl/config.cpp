#include "qwen_vl/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"
#include "qwen_vl/json_fields.h"

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

constexpr const char* kNotBuilt = "not built into qwen_vl";

[[noreturn]] void refuse(const std::string& message) { throw sdk::Failure(LF_E_INVALID, message); }

Family parse_family(const std::string& model_type) {
  if (model_type == "qwen2_vl") return Family::kQwen2Vl;
  if (model_type == "qwen2_5_vl") return Family::kQwen2_5Vl;
  if (model_type == "qwen3_vl") return Family::kQwen3Vl;
  if (model_type == "qwen3_vl_moe") return Family::kQwen3VlMoe;
  refuse(fmt::format(
      "config.json: model_type: expected qwen2_vl, qwen2_5_vl, qwen3_vl or qwen3_vl_moe, got \"{}\"; choose the model "
      "family that knows it",
      model_type));
}

// Fields of every transformers configuration that have no part in the maths of training.
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
  fields.only("quantization_config", {}, kNotBuilt);
}

struct Rope {
  double theta;
  std::vector<int64_t> section;
};

// rope_parameters (transformers 5), or rope_theta and rope_scaling (published).
Rope parse_rope(JsonFields& fields, double default_theta, std::vector<int64_t> default_section, bool interleaved) {
  Rope rope{fields.positive_number("rope_theta", default_theta), std::move(default_section)};
  fields.only("partial_rotary_factor", {1, 1.0}, kNotBuilt);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json* object = fields.object(name);
    if (object == nullptr) continue;
    JsonFields inner(*object, fmt::format("{}.{}", fields.place(), name));
    for (const char* type : {"type", "rope_type"}) inner.only(type, {"default", "mrope"}, kNotBuilt);
    rope.theta = inner.positive_number("rope_theta", rope.theta);
    rope.section = inner.integers("mrope_section", rope.section);
    if (inner.flag("mrope_interleaved", interleaved) != interleaved)
      inner.refuse("mrope_interleaved", interleaved ? "true for Qwen3-VL" : "false for Qwen2-VL and Qwen2.5-VL");
    inner.only("partial_rotary_factor", {1, 1.0}, kNotBuilt);
    if (const auto unread = inner.unread(); !unread.empty()) refuse(unread.front() + ": " + kNotBuilt);
  }
  return rope;
}

TextConfig parse_text(JsonFields& fields, Family family) {
  const bool q3 = is_qwen3(family), moe = family == Family::kQwen3VlMoe;
  TextConfig c;
  c.vocab_size = fields.positive("vocab_size", q3 ? 151936 : 152064);
  c.hidden_size = fields.positive("hidden_size", moe ? 2048 : q3 ? 4096 : 8192);
  c.intermediate_size = fields.positive("intermediate_size", moe ? 5632 : q3 ? 22016 : 29568);
  c.num_hidden_layers = fields.positive("num_hidden_layers", moe ? 24 : q3 ? 32 : 80);
  c.num_attention_heads = fields.positive("num_attention_heads", moe ? 16 : q3 ? 32 : 64);
  c.num_key_value_heads = fields.has("num_key_value_heads") ? fields.positive("num_key_value_heads", 1)
                          : moe                             ? 16
                          : q3                              ? 32
                                                            : 8;
  const int64_t even = c.hidden_size / c.num_attention_heads;
  c.head_dim = fields.positive("head_dim", q3 && !moe ? 128 : even);
  if (!q3 && (c.head_dim != even || c.hidden_size % c.num_attention_heads != 0))
    fields.refuse("num_attention_heads", fmt::format("a divisor of hidden_size {}", c.hidden_size));
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fields.refuse("num_key_value_heads", fmt::format("a divisor of num_attention_heads {}", c.num_attention_heads));
  if (c.head_dim % 2 != 0) fields.refuse("head_dim", "an even number");
  c.max_position_embeddings = fields.positive("max_position_embeddings", q3 ? 128000 : 32768);
  c.rms_norm_eps = fields.positive_number("rms_norm_eps", q3 ? 1e-6 : 1e-5);
  c.initializer_range = fields.positive_number("initializer_range", 0.02);
  c.pad_token_id = fields.integer("pad_token_id");
  if (c.pad_token_id && (*c.pad_token_id < 0 || *c.pad_token_id >= c.vocab_size))
    fields.refuse("pad_token_id", fmt::format("below vocab_size {}", c.vocab_size));

  const Rope rope = parse_rope(fields, q3 ? 500000 : 1000000,
                               q3 ? std::vector<int64_t>{24, 20, 20} : std::vector<int64_t>{16, 24, 24}, q3);
  c.rope_theta = rope.theta;
  c.mrope_section = rope.section;
  int64_t sum = 0;
  for (const int64_t s : c.mrope_section) sum += s;
  const bool sane = c.mrope_section.size() == 3 &&
                    std::all_of(c.mrope_section.begin(), c.mrope_section.end(), [](int64_t s) { return s >= 0; });
  if (!sane || sum != c.head_dim / 2)
    refuse(fmt::format("{}: mrope_section: expected three numbers that add up to head_dim / 2 = {}, got [{}]",
                       fields.place(), c.head_dim / 2, fmt::join(c.mrope_section, ", ")));

  fields.only("hidden_act", {"silu"}, kNotBuilt);
  fields.only("attention_bias", {false}, kNotBuilt);
  fields.only("attention_dropout", {0, 0.0}, kNotBuilt);
  fields.only("use_sliding_window", {false}, kNotBuilt);
  if (q3) fields.only("sliding_window", {}, kNotBuilt);
  fields.ignore({"sliding_window", "max_window_layers"});  // without a meaning where use_sliding_window is off
  if (fields.has("layer_types"))
    fields.only("layer_types",
                {json(std::vector<std::string>(static_cast<size_t>(c.num_hidden_layers), "full_attention"))},
                kNotBuilt);
  if (moe) {
    c.num_experts =
        fields.has("num_local_experts") ? fields.positive("num_local_experts", 0) : fields.positive("num_experts", 60);
    fields.ignore({"num_local_experts", "num_experts"});
    c.num_experts_per_tok = fields.positive("num_experts_per_tok", 4);
    if (c.num_experts_per_tok > c.num_experts)
      fields.refuse("num_experts_per_tok", fmt::format("at most the {} experts", c.num_experts));
    c.moe_intermediate_size = fields.positive("moe_intermediate_size", 1408);
    c.decoder_sparse_step = fields.positive("decoder_sparse_step", 1);
    c.mlp_only_layers = fields.integers("mlp_only_layers", {});
    c.router_aux_loss_coef = fields.number("router_aux_loss_coef", 0.001);
    fields.only("norm_topk_prob", {true}, kNotBuilt);
    fields.ignore({"output_router_logits"});
  }
  return c;
}

VisionConfig parse_vision(JsonFields& fields, Family family, const TextConfig& text) {
  const bool q3 = is_qwen3(family), q25 = family == Family::kQwen2_5Vl;
  VisionConfig c;
  c.depth = fields.positive("depth", q3 ? 27 : 32);
  if (family == Family::kQwen2Vl) {
    // Here hidden_size is the width that leaves the tower.
    c.hidden_size = fields.positive("embed_dim", 1280);
    c.out_hidden_size = fields.positive("hidden_size", 3584);
    c.intermediate_size =
        static_cast<int64_t>(static_cast<double>(c.hidden_size) * fields.positive_number("mlp_ratio", 4));
  } else {
    c.hidden_size = fields.positive("hidden_size", q3 ? 1152 : 3584);
    c.out_hidden_size = fields.positive("out_hidden_size", 3584);
    c.intermediate_size = fields.positive("intermediate_size", q3 ? 4304 : 3420);
  }
  c.num_heads = fields.positive("num_heads", 16);
  if (c.hidden_size % c.num_heads != 0 || c.hidden_size / c.num_heads % 4 != 0)
    fields.refuse("num_heads", fmt::format("to cut the width {} into heads of a multiple of 4", c.hidden_size));
  c.in_channels = fields.positive("in_channels", fields.positive("in_chans", 3));
  c.patch_size = fields.positive("patch_size", q3 ? 16 : 14);
  if (fields.positive("spatial_patch_size", c.patch_size) != c.patch_size)
    fields.refuse("spatial_patch_size", fmt::format("patch_size, {}", c.patch_size));
  c.temporal_patch_size = fields.positive("temporal_patch_size", 2);
  c.spatial_merge_size = fields.positive("spatial_merge_size", 2);
  c.initializer_range = fields.positive_number("initializer_range", 0.02);
  if (const json* rope = fields.object("rope_parameters")) {
    JsonFields inner(*rope, fields.place() + ".rope_parameters");
    inner.only("rope_type", {"axial", "default"}, kNotBuilt);
    c.rope_theta = inner.positive_number("rope_theta", c.rope_theta);
    if (const auto unread = inner.unread(); !unread.empty()) refuse(unread.front() + ": " + kNotBuilt);
  }
  fields.only("hidden_act", {q3 ? "gelu_pytorch_tanh" : q25 ? "silu" : "quick_gelu"}, kNotBuilt);
  if (q25) {
    c.window_size = fields.positive("window_size", 112);
    if (c.window_size / c.spatial_merge_size / c.patch_size < 1)
      fields.refuse("window_size",
                    fmt::format("at least one merged patch of {} pixels", c.spatial_merge_size * c.patch_size));
    c.fullatt_block_indexes = fields.integers("fullatt_block_indexes", {7, 15, 23, 31});
    c.tokens_per_second = fields.positive_number("tokens_per_second", 4);
  }
  fields.ignore({"tokens_per_second"});
  if (q3) {
    c.num_position_embeddings = fields.positive("num_position_embeddings", 2304);
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(c.num_position_embeddings))));
    if (side * side != c.num_position_embeddings) fields.refuse("num_position_embeddings", "a square number");
    c.deepstack_visual_indexes = fields.integers("deepstack_visual_indexes", {8, 16, 24});
    for (size_t i = 0; i < c.deepstack_visual_indexes.size(); ++i) {
      const int64_t layer = c.deepstack_visual_indexes[i];
      if (layer < 0 || layer >= c.depth || (i > 0 && layer <= c.deepstack_visual_indexes[i - 1]))
        fields.refuse("deepstack_visual_indexes", fmt::format("ascending layers below {}", c.depth));
    }
    if (static_cast<int64_t>(c.deepstack_visual_indexes.size()) > text.num_hidden_layers)
      fields.refuse("deepstack_visual_indexes", fmt::format("at most the {} decoder layers", text.num_hidden_layers));
  }
  if (c.out_hidden_size != text.hidden_size)
    fields.refuse(family == Family::kQwen2Vl ? "hidden_size" : "out_hidden_size",
                  fmt::format("the text's hidden_size, {}", text.hidden_size));
  return c;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

bool TextConfig::is_sparse(int64_t layer) const {
  return num_experts > 0 && (layer + 1) % decoder_sparse_step == 0 &&
         std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
}

QwenVlConfig parse_config(std::string_view config_json) {
  const json root = json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) refuse("config.json: not valid JSON; write it again");
  JsonFields fields(root, "config.json");
  QwenVlConfig config;
  config.family = parse_family(fields.text("model_type", ""));
  ignore_bookkeeping(fields);

  const json empty = json::object();
  bool tied = false;
  if (const json* nested = fields.object("text_config")) {
    JsonFields text(*nested, "config.json: text_config");
    ignore_bookkeeping(text);
    config.text = parse_text(text, config.family);
    tied = text.flag("tie_word_embeddings", false);
    append(config.unknown_keys, text.unread());
  } else if (!is_qwen3(config.family)) {
    config.text = parse_text(fields, config.family);
  } else {
    fields.refuse("text_config", "an object");
  }
  // transformers: the root's value counts; Qwen2-VL files of before version 5 keep it inside text_config.
  if (fields.has("tie_word_embeddings") && (is_qwen3(config.family) || fields.flag("tie_word_embeddings", false)))
    tied = fields.flag("tie_word_embeddings", false);
  fields.ignore({"tie_word_embeddings"});
  config.tie_word_embeddings = tied;

  const json* vision_object = fields.object("vision_config");
  JsonFields vision(vision_object != nullptr ? *vision_object : empty, "config.json: vision_config");
  ignore_bookkeeping(vision);
  config.vision = parse_vision(vision, config.family, config.text);
  append(config.unknown_keys, vision.unread());

  const auto token = [&](const char* name, int64_t fallback) {
    const int64_t id = fields.at_least(name, 0, fallback);
    if (id >= config.text.vocab_size) fields.refuse(name, fmt::format("below vocab_size {}", config.text.vocab_size));
    return id;
  };
  config.image_token_id = token("image_token_id", 151655);
  config.video_token_id = token("video_token_id", 151656);
  config.vision_start_token_id = token("vision_start_token_id", 151652);
  config.vision_end_token_id = token("vision_end_token_id", 151653);
  fields.ignore({"vision_token_id"});  // published, read by nobody
  append(config.unknown_keys, fields.unread());
  return config;
}

}  // namespace lf::qwen_vl
