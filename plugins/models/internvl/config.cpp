#include "internvl/config.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::internvl {
namespace {

using family::ignore_bookkeeping;
using family::JsonFields;
using family::kNotBuilt;
using nlohmann::json;

[[noreturn]] void refuse(const std::string& message) { throw sdk::Failure(LF_E_INVALID, message); }

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

const json& nested(JsonFields& fields, const char* name) {
  static const json kEmpty = json::object();
  const json* object = fields.object(name);
  return object == nullptr ? kEmpty : *object;
}

// A number, or [number, number] of a square.
int64_t square_side(JsonFields& fields, const json& object, const char* name, int64_t fallback) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null() || !found->is_array()) return fields.positive(name, fallback);
  const std::vector<int64_t> sides = fields.integers(name, {});
  if (sides.size() != 2 || sides[0] != sides[1] || sides[0] < 1) fields.refuse(name, "one size for both sides");
  return sides[0];
}

void parse_text_half(InternVlConfig& config, const json& object, const char* name, const char* default_type) {
  JsonFields fields(object, fmt::format("config.json: {}", name));
  config.text_type = fields.text("model_type", default_type);
  ignore_bookkeeping(fields);
  const auto rules = family::text_rules(config.text_type);
  if (!rules) fields.refuse("model_type", "llama, internlm2, qwen2, qwen3 or qwen3_moe");
  config.text = family::parse_text(fields, *rules);
  config.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  fields.ignore({"ep_size"});  // how experts were spread over ranks
  append(config.unknown_keys, fields.unread_but_off("internvl"));
}

void parse_vision(InternVlConfig& config, const json& object) {
  const bool original = config.layout == Layout::kOriginal;
  JsonFields fields(object, "config.json: vision_config");
  ignore_bookkeeping(fields);
  VisionConfig& v = config.vision;
  v.hidden_size = fields.positive("hidden_size", original ? 3200 : 1024);
  v.num_hidden_layers = fields.positive("num_hidden_layers", original ? 48 : 24, JsonFields::kMostLayers);
  v.num_attention_heads = fields.positive("num_attention_heads", original ? 25 : 16);
  if (v.hidden_size % v.num_attention_heads != 0)
    fields.refuse("num_attention_heads", fmt::format("a divisor of hidden_size {}", v.hidden_size));
  v.intermediate_size = fields.positive("intermediate_size", original ? 12800 : 4096);
  v.num_channels = fields.positive("num_channels", 3);
  v.image_size = square_side(fields, object, "image_size", original ? 224 : 448);
  v.patch_size = square_side(fields, object, "patch_size", 14);
  const std::string norm = fields.text("norm_type", original ? "rms_norm" : "layer_norm");
  if (norm != "layer_norm" && norm != "rms_norm") fields.refuse("norm_type", "layer_norm or rms_norm");
  v.rms_norm = norm == "rms_norm";
  v.query_key_norms = fields.flag(original ? "qk_normalization" : "use_qk_norm", original);
  v.qkv_bias = fields.flag(original ? "qkv_bias" : "attention_bias", false);
  v.layer_norm_eps = fields.positive_number("layer_norm_eps", 1e-6);
  v.layer_scale = fields.number(original ? "initializer_factor" : "layer_scale_init_value", 0.1);
  v.initializer_range = fields.positive_number("initializer_range", 0.02);
  fields.only("hidden_act", {"gelu"}, kNotBuilt);
  for (const char* name : {"attention_dropout", "hidden_dropout_prob", "projection_dropout", "dropout"})
    fields.only(name, {0, 0.0}, kNotBuilt);
  fields.only("use_absolute_position_embeddings", {true}, kNotBuilt);
  fields.only("use_mask_token", {false}, kNotBuilt);
  fields.only("use_mean_pooling", {true}, kNotBuilt);  // else there would be a norm after the last layer
  // The authors' training sets the drop path by its own option, 0 unless asked for, whatever a published file has.
  fields.ignore({"drop_path_rate", "use_flash_attn"});
  // Published files have the sizes of experts that their towers are made without.
  fields.only("use_moe", {false}, kNotBuilt);
  fields.ignore({"capacity_factor", "eval_capacity_factor", "laux_allreduce", "moe_coeff_ratio",
                 "moe_intermediate_size", "moe_output_scale", "noisy_gate_policy", "num_experts", "num_routed_experts",
                 "num_shared_experts", "shared_expert_intermediate_size", "use_residual", "use_rts",
                 "use_weighted_residual", "ep_size"});
  append(config.unknown_keys, fields.unread_but_off("internvl"));
}

void parse_transformers(JsonFields& fields, InternVlConfig& config) {
  parse_text_half(config, nested(fields, "text_config"), "text_config", "qwen2");
  parse_vision(config, nested(fields, "vision_config"));
  config.tile_size = config.vision.image_size;
  config.image_token_id = fields.integer("image_token_id").value_or(151667);
  fields.only("vision_feature_layer", {-1}, kNotBuilt);
  fields.only("vision_feature_select_strategy", {"default"}, kNotBuilt);
  fields.only("projector_hidden_act", {"gelu"}, kNotBuilt);
  fields.ignore({"image_seq_length", "video_token_id"});
  // transformers 5: the root's value counts, and true where nobody says anything.
  const json& text = nested(fields, "text_config");
  config.tie_word_embeddings =
      fields.flag("tie_word_embeddings", !text.contains("tie_word_embeddings") || config.tie_word_embeddings);
}

void parse_original(JsonFields& fields, InternVlConfig& config) {
  parse_text_half(config, nested(fields, "llm_config"), "llm_config", "internlm2");
  parse_vision(config, nested(fields, "vision_config"));
  config.tile_size = fields.positive("force_image_size", config.vision.image_size);
  config.image_token_id = fields.integer("img_context_token_id");
  fields.only("select_layer", {-1}, kNotBuilt);
  fields.only("ps_version", {"v2"}, kNotBuilt);
  fields.only("pad2square", {false}, kNotBuilt);
  for (const char* name : {"use_backbone_lora", "use_llm_lora"}) fields.only(name, {0}, kNotBuilt);
  config.tiles.least = fields.positive("min_dynamic_patch", 1);
  config.tiles.most = fields.positive("max_dynamic_patch", 6);
  config.tiles.thumbnail = fields.flag("use_thumbnail", false);
  config.tiles.dynamic = fields.flag("dynamic_image_size", false);
  fields.ignore({"template", "system_message", "hidden_size", "tie_word_embeddings", "max_dynamic_patch"});
}

}  // namespace

InternVlConfig parse_config(std::string_view config_json) {
  const json root = json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) refuse("config.json: not valid JSON; write it again");
  JsonFields fields(root, "config.json");
  InternVlConfig config;
  const std::string type = fields.text("model_type", "");
  if (type != "internvl" && type != "internvl_chat")
    refuse(
        fmt::format("config.json: model_type: expected internvl or internvl_chat, got \"{}\"; choose the model family "
                    "that knows it",
                    type));
  config.layout = type == "internvl" ? Layout::kTransformers : Layout::kOriginal;
  ignore_bookkeeping(fields);
  const double ratio = fields.positive_number("downsample_ratio", 0.5);
  config.merge = std::llround(1 / ratio);
  if (config.merge < 1 || ratio * static_cast<double>(config.merge) != 1)
    fields.refuse("downsample_ratio", "1 divided by a whole number");
  if (config.layout == Layout::kTransformers) {
    parse_transformers(fields, config);
  } else {
    parse_original(fields, config);
  }
  const VisionConfig& v = config.vision;
  if (v.image_size % v.patch_size != 0)
    refuse(fmt::format("config.json: vision_config.image_size: expected a multiple of patch_size {}, got {}",
                       v.patch_size, v.image_size));
  if (config.tile_size % (v.patch_size * config.merge) != 0)
    refuse(
        fmt::format("config.json: tiles of {} pixels: expected a multiple of patch_size / downsample_ratio = {}, "
                    "or the pixel shuffle would drop patches",
                    config.tile_size, v.patch_size * config.merge));
  if (config.image_token_id && (*config.image_token_id < 0 || *config.image_token_id >= config.text.vocab_size))
    fields.refuse(config.layout == Layout::kTransformers ? "image_token_id" : "img_context_token_id",
                  fmt::format("a token below vocab_size {}", config.text.vocab_size));
  append(config.unknown_keys, fields.unread_but_off("internvl"));
  return config;
}

}  // namespace lf::internvl
