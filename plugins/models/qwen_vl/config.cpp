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

Family parse_family(const std::string& model_type) {
  if (model_type == "qwen2_vl") return Family::kQwen2Vl;
  if (model_type == "qwen2_5_vl") return Family::kQwen2_5Vl;
  if (model_type == "qwen3_vl") return Family::kQwen3Vl;
  if (model_type == "qwen3_vl_moe") return Family::kQwen3VlMoe;
  throw sdk::Failure(LF_E_INVALID,
                     fmt::format("config.json: model_type: expected qwen2_vl, qwen2_5_vl, qwen3_vl or qwen3_vl_moe, "
                                 "got \"{}\"; choose the model family that knows it",
                                 model_type));
}

TextRules text_rules_of(Family family) {
  const bool q3 = is_qwen3(family), moe = family == Family::kQwen3VlMoe;
  TextRules rules;
  rules.qkv_bias = !q3;
  rules.head_norms = rules.own_head_size = rules.interleaved = q3;
  rules.experts = moe;
  rules.mrope_section = q3 ? std::vector<int64_t>{24, 20, 20} : std::vector<int64_t>{16, 24, 24};
  rules.states_head_size = q3 && !moe;
  rules.norm_eps = q3 ? 1e-6 : 1e-5;
  rules.theta = q3 ? 500000 : 1000000;
  return rules;
}

// A token of kMostPatch * kMostMerge pixels a side has 2^32 of them: what pictures and videos may cost stays countable.
constexpr int64_t kMostPatch = 1024, kMostMerge = 64;

VisionConfig parse_vision(JsonFields& fields, Family family, const TextConfig& text, const JsonFields& text_fields) {
  const bool q3 = is_qwen3(family), q25 = family == Family::kQwen2_5Vl;
  VisionConfig c;
  c.depth = fields.size("depth", JsonFields::kMostLayers);
  if (family == Family::kQwen2Vl) {
    // Here hidden_size is the width that leaves the tower.
    c.hidden_size = fields.size("embed_dim");
    c.out_hidden_size = fields.size("hidden_size");
    const double inner =
        static_cast<double>(c.hidden_size) * fields.positive_number("mlp_ratio", fields.usual("mlp_ratio", 4.0));
    if (inner >= 1 && inner <= static_cast<double>(JsonFields::kMostSize))
      c.intermediate_size = static_cast<int64_t>(inner);
    else
      fields.refuse(
          "mlp_ratio",
          fmt::format("a number that makes 1 to {} columns of embed_dim {}", JsonFields::kMostSize, c.hidden_size),
          {"embed_dim"});
  } else {
    c.hidden_size = fields.size("hidden_size");
    c.out_hidden_size = fields.size("out_hidden_size");
    c.intermediate_size = fields.size("intermediate_size");
  }
  c.num_heads = fields.size("num_heads");
  if (c.hidden_size % c.num_heads != 0 || c.hidden_size / c.num_heads % 4 != 0)
    fields.refuse("num_heads", fmt::format("to cut the width {} into heads of a multiple of 4", c.hidden_size),
                  {"hidden_size", "embed_dim"});
  c.in_channels = fields.has("in_channels") || fields.has("in_chans") ? 3 : fields.usual("in_channels", int64_t{3});
  c.in_channels = fields.positive("in_channels", fields.positive("in_chans", c.in_channels));
  c.patch_size = fields.size("patch_size", kMostPatch);
  if (fields.positive("spatial_patch_size", c.patch_size) != c.patch_size)
    fields.refuse("spatial_patch_size", fmt::format("patch_size, {}", c.patch_size), {"patch_size"});
  c.temporal_patch_size = fields.size("temporal_patch_size", kMostMerge);
  c.spatial_merge_size = fields.size("spatial_merge_size", kMostMerge);
  const char* width = family == Family::kQwen2Vl ? "embed_dim" : "hidden_size";
  if (const int64_t patches = c.spatial_merge_size * c.spatial_merge_size;
      c.hidden_size > JsonFields::kMostSize / patches)
    fields.refuse(
        width,
        fmt::format("at most {}, as {} patches are merged into one row", JsonFields::kMostSize / patches, patches),
        {"spatial_merge_size"});
  c.initializer_range = fields.positive_number("initializer_range", 0.02);
  if (const json* rope = fields.object("rope_parameters")) {
    JsonFields inner = fields.inside(*rope, fields.place() + ".rope_parameters");
    inner.only("rope_type", {"axial", "default"}, kNotBuilt);
    c.rope_theta = inner.positive_number("rope_theta", c.rope_theta);
    inner.refuse_unread(kNotBuilt);
  }
  fields.only("hidden_act", {q3 ? "gelu_pytorch_tanh" : q25 ? "silu" : "quick_gelu"}, kNotBuilt);
  if (q25) {
    c.window_size = fields.size("window_size");
    if (c.window_size / c.spatial_merge_size / c.patch_size < 1)
      fields.refuse("window_size",
                    fmt::format("at least one merged patch of {} pixels", c.spatial_merge_size * c.patch_size),
                    {"patch_size", "spatial_merge_size"});
    c.fullatt_block_indexes = fields.integers(
        "fullatt_block_indexes", fields.usual("fullatt_block_indexes", std::vector<int64_t>{7, 15, 23, 31}));
    // The class's own layers may lie beyond a shallow tower, where they are without effect.
    if (fields.has("fullatt_block_indexes") &&
        std::any_of(c.fullatt_block_indexes.begin(), c.fullatt_block_indexes.end(),
                    [&](int64_t layer) { return layer < 0 || layer >= c.depth; }))
      fields.refuse("fullatt_block_indexes", fmt::format("layers from 0 to {}, of depth {}", c.depth - 1, c.depth),
                    {"depth"});
    c.tokens_per_second = fields.positive_number("tokens_per_second", fields.usual("tokens_per_second", 4.0), 1e6);
  }
  fields.ignore({"tokens_per_second"});
  if (q3) {
    c.num_position_embeddings = fields.size("num_position_embeddings");
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(c.num_position_embeddings))));
    if (side * side != c.num_position_embeddings) fields.refuse("num_position_embeddings", "a square number");
    c.deepstack_visual_indexes = fields.integers(
        "deepstack_visual_indexes", fields.usual("deepstack_visual_indexes", std::vector<int64_t>{8, 16, 24}));
    for (size_t i = 0; i < c.deepstack_visual_indexes.size(); ++i) {
      const int64_t layer = c.deepstack_visual_indexes[i];
      if (layer < 0 || layer >= c.depth || (i > 0 && layer <= c.deepstack_visual_indexes[i - 1]))
        fields.refuse("deepstack_visual_indexes", fmt::format("ascending layers below {}", c.depth), {"depth"});
    }
    if (text_fields.sound({"num_hidden_layers", "text_config"}) &&
        static_cast<int64_t>(c.deepstack_visual_indexes.size()) > text.num_hidden_layers)
      fields.refuse("deepstack_visual_indexes", fmt::format("at most the {} decoder layers", text.num_hidden_layers));
  }
  if (text_fields.sound({"hidden_size", "text_config"}) && c.out_hidden_size != text.hidden_size)
    fields.refuse(family == Family::kQwen2Vl ? "hidden_size" : "out_hidden_size",
                  fmt::format("the text's hidden_size, {}", text.hidden_size));
  return c;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

QwenVlConfig parse_config(std::string_view config_json) {
  return family::read_whole([&](family::Findings& findings) { return parse_config(config_json, findings); });
}

QwenVlConfig parse_config(std::string_view config_json, family::Findings& findings) {
  const json root = json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) throw sdk::Failure(LF_E_INVALID, "config.json: not valid JSON; write it again");
  JsonFields fields(root, "config.json", &findings);
  QwenVlConfig config;
  config.family = parse_family(fields.text("model_type", ""));
  ignore_bookkeeping(fields);

  const json* nested = fields.object("text_config");
  const bool flat = nested == nullptr && !is_qwen3(config.family) && fields.has("hidden_size");
  if (nested == nullptr && !flat)
    fields.refuse("text_config", is_qwen3(config.family)
                                     ? "an object with the decoder's sizes"
                                     : "an object with the decoder's sizes (or hidden_size and the others beside it)");
  std::optional<JsonFields> inner;
  if (nested != nullptr) inner.emplace(*nested, "config.json: text_config", &findings);
  JsonFields& text = inner ? *inner : fields;
  bool tied = false;
  if (nested != nullptr || flat) config.text = parse_text(text, text_rules_of(config.family));
  if (nested != nullptr) {
    ignore_bookkeeping(text);
    tied = text.flag("tie_word_embeddings", false);
    // transformers 4.5x repeats the root's tokens here, and reads them there.
    text.ignore(
        {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id"});
    append(config.unknown_keys, text.unread_but_off("qwen_vl"));
  }
  // transformers: the root's value counts; Qwen2-VL files of before version 5 keep it inside text_config.
  if (fields.has("tie_word_embeddings") && (is_qwen3(config.family) || fields.flag("tie_word_embeddings", false)))
    tied = fields.flag("tie_word_embeddings", false);
  fields.ignore({"tie_word_embeddings"});
  config.tie_word_embeddings = tied;

  if (const json* vision_object = fields.object("vision_config")) {
    JsonFields vision = fields.inside(*vision_object, "config.json: vision_config");
    ignore_bookkeeping(vision);
    config.vision = parse_vision(vision, config.family, config.text, text);
    append(config.unknown_keys, vision.unread_but_off("qwen_vl"));
  } else {
    fields.refuse("vision_config", "an object with the tower's sizes");
  }

  const auto token = [&](const char* name, int64_t fallback) {
    const int64_t id = fields.within(name, 0, JsonFields::kMostSize, fallback);
    if (id >= config.text.vocab_size && text.sound({"vocab_size", "text_config"}))
      fields.refuse(name, fmt::format("below vocab_size {}", config.text.vocab_size));
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
