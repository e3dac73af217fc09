#include "qwen_vl/config.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

using family::ignore_bookkeeping;
using family::JsonFields;
using family::kNotBuilt;
using family::parse_text;
using family::TextRules;
using nlohmann::json;

constexpr int64_t kOutWidth = 3584;  // of a tower whose vision_config does not say it

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

TextRules text_rules_of(Family family) {
  const bool q3 = is_qwen3(family), moe = family == Family::kQwen3VlMoe;
  TextRules rules;
  rules.qkv_bias = !q3;
  rules.head_norms = rules.own_head_size = rules.interleaved = q3;
  rules.experts = moe;
  rules.mrope_section = q3 ? std::vector<int64_t>{24, 20, 20} : std::vector<int64_t>{16, 24, 24};
  rules.vocabulary = q3 ? 151936 : 152064;
  rules.width = moe ? 2048 : q3 ? 4096 : 8192;
  rules.intermediate = moe ? 5632 : q3 ? 22016 : 29568;
  rules.layers = moe ? 24 : q3 ? 32 : 80;
  rules.heads = moe ? 16 : q3 ? 32 : 64;
  rules.kv_heads = moe ? 16 : q3 ? 32 : 8;
  rules.head_size = q3 && !moe ? 128 : 0;
  rules.positions = q3 ? 128000 : 32768;
  rules.norm_eps = q3 ? 1e-6 : 1e-5;
  rules.theta = q3 ? 500000 : 1000000;
  return rules;
}

VisionConfig parse_vision(JsonFields& fields, Family family, const TextConfig& text) {
  const bool q3 = is_qwen3(family), q25 = family == Family::kQwen2_5Vl;
  VisionConfig c;
  c.depth = fields.positive("depth", q3 ? 27 : 32, JsonFields::kMostLayers);
  if (family == Family::kQwen2Vl) {
    // Here hidden_size is the width that leaves the tower.
    c.hidden_size = fields.positive("embed_dim", 1280);
    c.out_hidden_size = fields.positive("hidden_size", kOutWidth);
    c.intermediate_size =
        static_cast<int64_t>(static_cast<double>(c.hidden_size) * fields.positive_number("mlp_ratio", 4));
  } else {
    c.hidden_size = fields.positive("hidden_size", q3 ? 1152 : 3584);
    c.out_hidden_size = fields.positive("out_hidden_size", kOutWidth);
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
    config.text = parse_text(text, text_rules_of(config.family));
    tied = text.flag("tie_word_embeddings", false);
    // transformers 4.5x repeats the root's tokens here, and reads them there.
    text.ignore(
        {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id"});
    append(config.unknown_keys, text.unread_but_off("qwen_vl"));
  } else if (!is_qwen3(config.family) && fields.has("hidden_size")) {
    config.text = parse_text(fields, text_rules_of(config.family));
  } else {
    fields.refuse("text_config", is_qwen3(config.family)
                                     ? "an object with the decoder's sizes"
                                     : "an object with the decoder's sizes (or hidden_size and the others beside it)");
  }
  // transformers: the root's value counts; Qwen2-VL files of before version 5 keep it inside text_config.
  if (fields.has("tie_word_embeddings") && (is_qwen3(config.family) || fields.flag("tie_word_embeddings", false)))
    tied = fields.flag("tie_word_embeddings", false);
  fields.ignore({"tie_word_embeddings"});
  config.tie_word_embeddings = tied;

  const json* vision_object = fields.object("vision_config");
  JsonFields vision(vision_object != nullptr ? *vision_object : empty, "config.json: vision_config");
  ignore_bookkeeping(vision);
  if (vision_object == nullptr && config.text.hidden_size != kOutWidth)
    fields.refuse("vision_config",
                  fmt::format("an object with the tower's sizes (left out, the tower gives rows of {}, "
                              "and the text's hidden_size is {})",
                              kOutWidth, config.text.hidden_size));
  config.vision = parse_vision(vision, config.family, config.text);
  append(config.unknown_keys, vision.unread_but_off("qwen_vl"));

  const auto token = [&](const char* name, int64_t fallback) {
    const int64_t id = fields.within(name, 0, JsonFields::kMostSize, fallback);
    if (id >= config.text.vocab_size) fields.refuse(name, fmt::format("below vocab_size {}", config.text.vocab_size));
    return id;
  };
  config.image_token_id = token("image_token_id", 151655);
  config.video_token_id = token("video_token_id", 151656);
  config.vision_start_token_id = token("vision_start_token_id", 151652);
  config.vision_end_token_id = token("vision_end_token_id", 151653);
  fields.ignore({"vision_token_id"});  // published, read by nobody
  append(config.unknown_keys, fields.unread_but_off("qwen_vl"));
  return config;
}

}  // namespace lf::qwen_vl
