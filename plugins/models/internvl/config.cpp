#include "internvl/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"
#include "media/tiles.h"

namespace lf::internvl {
namespace {

using family::ignore_bookkeeping;
using family::JsonFields;
using family::kNotBuilt;
using nlohmann::json;

constexpr int64_t kMostSide = 1 << 14;  // pixels of a tile

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

const json& nested(JsonFields& fields, const char* name) {
  static const json kEmpty = json::object();
  const json* object = fields.object(name);
  return object == nullptr ? kEmpty : *object;
}

// A number, or [number, number] of a square.
int64_t square_side(JsonFields& fields, const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null() || !found->is_array()) return fields.size(name, kMostSide);
  const std::vector<int64_t> sides = fields.integers(name, {});
  if (sides.size() == 2 && sides[0] == sides[1] && sides[0] >= 1 && sides[0] <= kMostSide) return sides[0];
  fields.refuse(name, fmt::format("one size in [1, {}] for both sides", kMostSide));
  return 1;
}

void parse_text_half(InternVlConfig& config, JsonFields& fields, const char* default_type) {
  config.text_type = fields.text("model_type", fields.usual("model_type", std::string(default_type)));
  ignore_bookkeeping(fields);
  const auto rules = family::text_rules(config.text_type);
  if (!rules) return fields.refuse("model_type", "llama, internlm2, qwen2, qwen3 or qwen3_moe");
  config.text = family::parse_text(fields, *rules);
  config.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  fields.ignore({"ep_size"});  // how experts were spread over ranks
  append(config.unknown_keys, fields.unread_but_off("internvl"));
}

void parse_vision(InternVlConfig& config, JsonFields& fields, const json& object) {
  const bool original = config.layout == Layout::kOriginal;
  ignore_bookkeeping(fields);
  VisionConfig& v = config.vision;
  v.hidden_size = fields.size("hidden_size");
  v.num_hidden_layers = fields.size("num_hidden_layers", JsonFields::kMostLayers);
  v.num_attention_heads = fields.size("num_attention_heads");
  if (v.hidden_size % v.num_attention_heads != 0)
    fields.refuse("num_attention_heads", fmt::format("a divisor of hidden_size {}", v.hidden_size), {"hidden_size"});
  v.intermediate_size = fields.size("intermediate_size");
  v.num_channels = fields.positive("num_channels", fields.usual("num_channels", int64_t{3}));
  v.image_size = square_side(fields, object, "image_size");
  v.patch_size = square_side(fields, object, "patch_size");
  const std::string norm =
      fields.text("norm_type", fields.usual("norm_type", std::string(original ? "rms_norm" : "layer_norm")));
  if (norm != "layer_norm" && norm != "rms_norm") fields.refuse("norm_type", "layer_norm or rms_norm");
  v.rms_norm = norm == "rms_norm";
  const char* query_key_norms = original ? "qk_normalization" : "use_qk_norm";
  v.query_key_norms = fields.flag(query_key_norms, fields.usual(query_key_norms, original));
  const char* qkv_bias = original ? "qkv_bias" : "attention_bias";
  v.qkv_bias = fields.flag(qkv_bias, fields.usual(qkv_bias, false));
  v.layer_norm_eps = fields.positive_number("layer_norm_eps", fields.usual("layer_norm_eps", 1e-6));
  v.layer_scale = fields.number(original ? "initializer_factor" : "layer_scale_init_value", 0.1);
  // Converters of published models leave the authors' name beside transformers' own, which is the one that counts.
  if (!original) fields.ignore({"initializer_factor"});
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

// The two halves, one object each. False where the text's fields leave open what is checked against them.
bool parse_halves(JsonFields& fields, InternVlConfig& config, const char* text_name, const char* default_type) {
  bool text_is_sound = false;
  if (const json* object = fields.object(text_name)) {
    JsonFields text = fields.inside(*object, fmt::format("config.json: {}", text_name));
    parse_text_half(config, text, default_type);
    text_is_sound = text.sound({"model_type", "vocab_size"});
  } else {
    fields.refuse(text_name, "an object with the decoder's sizes");
  }
  if (const json* object = fields.object("vision_config")) {
    JsonFields vision = fields.inside(*object, "config.json: vision_config");
    parse_vision(config, vision, *object);
    const VisionConfig& v = config.vision;
    if (v.image_size % v.patch_size != 0)
      vision.refuse("image_size", fmt::format("a multiple of patch_size {}", v.patch_size), {"patch_size"});
    if (!vision.sound({"patch_size", "image_size"})) config.vision.patch_size = 0;
  } else {
    fields.refuse("vision_config", "an object with the tower's sizes");
  }
  return text_is_sound;
}

bool parse_transformers(JsonFields& fields, InternVlConfig& config) {
  const bool text_is_sound = parse_halves(fields, config, "text_config", "qwen2");
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
  return text_is_sound;
}

bool parse_original(JsonFields& fields, InternVlConfig& config) {
  const bool text_is_sound = parse_halves(fields, config, "llm_config", "internlm2");
  config.tile_size = fields.positive("force_image_size", config.vision.image_size, kMostSide);
  config.image_token_id = fields.integer("img_context_token_id");
  fields.only("select_layer", {-1}, kNotBuilt);
  fields.only("ps_version", {"v2"}, kNotBuilt);
  fields.only("pad2square", {false}, kNotBuilt);
  for (const char* name : {"use_backbone_lora", "use_llm_lora"}) fields.only(name, {0}, kNotBuilt);
  config.tiles.least =
      fields.positive("min_dynamic_patch", fields.usual("min_dynamic_patch", int64_t{1}), media::kMostTiles);
  config.tiles.most =
      fields.positive("max_dynamic_patch", fields.usual("max_dynamic_patch", int64_t{6}), media::kMostTiles);
  config.tiles.thumbnail = fields.flag("use_thumbnail", fields.usual("use_thumbnail", false));
  config.tiles.dynamic = fields.flag("dynamic_image_size", fields.usual("dynamic_image_size", false));
  fields.ignore({"template", "system_message", "hidden_size", "tie_word_embeddings", "max_dynamic_patch"});
  return text_is_sound;
}

}  // namespace

InternVlConfig parse_config(std::string_view config_json) {
  return family::read_whole([&](family::Findings& findings) { return parse_config(config_json, findings); });
}

InternVlConfig parse_config(std::string_view config_json, family::Findings& findings) {
  const json root = json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) throw sdk::Failure(LF_E_INVALID, "config.json: not valid JSON; write it again");
  JsonFields fields(root, "config.json", &findings);
  InternVlConfig config;
  const std::string type = fields.text("model_type", "");
  if (type != "internvl" && type != "internvl_chat")
    throw sdk::Failure(LF_E_INVALID, fmt::format("config.json: model_type: expected internvl or internvl_chat, got "
                                                 "\"{}\"; choose the model family that knows it",
                                                 type));
  config.layout = type == "internvl" ? Layout::kTransformers : Layout::kOriginal;
  ignore_bookkeeping(fields);
  constexpr const char* kRatio = "1 divided by a whole number, as it must be stated";
  if (!fields.has("downsample_ratio")) fields.refuse("downsample_ratio", kRatio);
  const double ratio = fields.positive_number("downsample_ratio", 0.5);
  config.merge = std::max<int64_t>(std::llround(std::min(1 / ratio, static_cast<double>(kMostSide))), 1);
  if (ratio * static_cast<double>(config.merge) != 1) fields.refuse("downsample_ratio", kRatio);
  const bool text_is_sound =
      config.layout == Layout::kTransformers ? parse_transformers(fields, config) : parse_original(fields, config);
  if (const int64_t patches = config.merge * config.merge;
      config.vision.hidden_size > JsonFields::kMostSize / patches && fields.sound({"downsample_ratio"}))
    fields.complain(
        "vision_config",
        fmt::format("config.json: vision_config.hidden_size: expected at most {}, as {} patches are merged into "
                    "one row, got {}",
                    JsonFields::kMostSize / patches, patches, config.vision.hidden_size));
  const int64_t block = config.vision.patch_size * config.merge;
  if (block > 0 && config.tile_size % block != 0)
    fields.complain("force_image_size",
                    fmt::format("config.json: tiles of {} pixels: expected a multiple of patch_size / downsample_ratio "
                                "= {}, or the pixel shuffle would drop patches",
                                config.tile_size, block),
                    {"downsample_ratio"});
  if (text_is_sound && config.image_token_id &&
      (*config.image_token_id < 0 || *config.image_token_id >= config.text.vocab_size))
    fields.refuse(config.layout == Layout::kTransformers ? "image_token_id" : "img_context_token_id",
                  fmt::format("a token below vocab_size {}", config.text.vocab_size));
  append(config.unknown_keys, fields.unread_but_off("internvl"));
  return config;
}

}  // namespace lf::internvl
