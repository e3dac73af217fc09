#include "compose/config.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::compose {
namespace {

using family::JsonFields;
using nlohmann::json;

const json& table(const json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end() || !found->is_object())
    throw sdk::Failure(LF_E_INVALID, fmt::format("config.json.{}: expected a table, got {}", name,
                                                 found == config.end() ? "none" : found->dump()));
  return *found;
}

// A component's own fields: the table without what this family reads.
json without(json object, std::initializer_list<const char*> names) {
  for (const char* name : names) object.erase(name);
  return object;
}

// The tower's family speaks of its own config.json, of which this one has the tables by other names. Its text half is
// this one's decoder, of which everything has been said.
std::string in_terms_of_compose(const std::string& theirs) {
  constexpr std::string_view kVision = "config.json: vision_config", kText = "config.json: text_config";
  if (theirs.starts_with(kText)) return "";
  return theirs.starts_with(kVision) ? "config.json: vision" + theirs.substr(kVision.size()) : theirs;
}

// What a tower can be checked against where the decoder is wrong, which has been said.
void stand_in(family::TextConfig& text) {
  text.hidden_size = 8;
  text.num_hidden_layers = JsonFields::kMostLayers;
}

void parse_decoder(const json& object, ComposeConfig& config, family::Findings& findings) {
  JsonFields fields(object, "config.json: decoder", &findings);
  config.decoder_type = fields.text("type", "");
  const auto rules = config.decoder_type == "internlm2" ? std::nullopt : family::text_rules(config.decoder_type);
  if (!rules) {
    fields.refuse("type", "llama, qwen2, qwen3 or qwen3_moe");
    return stand_in(config.text);
  }
  family::ignore_bookkeeping(fields);
  config.text = family::parse_text(fields, *rules);
  config.tied = fields.flag("tie_word_embeddings", false);
  for (const std::string& name : fields.unread_but_off("compose")) config.unknown_keys.push_back(name);
  if (!fields.sound({"hidden_size", "num_hidden_layers"})) stand_in(config.text);
}

void parse_intern_vit(const json& vision, int64_t merge, const json& decoder, ComposeConfig& config,
                      family::Findings& findings) {
  json text = without(decoder, {"type"});
  text["model_type"] = config.decoder_type;
  json as_internvl = {{"model_type", "internvl"},
                      {"downsample_ratio", 1.0 / static_cast<double>(merge)},
                      {"text_config", std::move(text)},
                      {"vision_config", without(vision, {"type"})}};
  // Which token stands for a picture is the tokenizer's to say.
  as_internvl["image_token_id"] = 0;
  family::Findings theirs;
  config.intern = internvl::parse_config(as_internvl.dump(), theirs);
  findings.take(theirs, in_terms_of_compose);
  config.intern->image_token_id = std::nullopt;
  config.unknown_keys.insert(config.unknown_keys.end(), config.intern->unknown_keys.begin(),
                             config.intern->unknown_keys.end());
}

void parse_qwen_vit(const json& vision, int64_t merge, const std::string& model_type, const json& tokens,
                    ComposeConfig& config, family::Findings& findings) {
  json own = without(vision, {"type"});
  own[model_type == "qwen2_vl" ? "hidden_size" : "out_hidden_size"] = config.text.hidden_size;
  own["spatial_merge_size"] = merge;
  if (model_type == "qwen3_vl" && !own.contains("deepstack_visual_indexes"))
    own["deepstack_visual_indexes"] = json::array();
  // A text half that agrees in width; the decoder takes its place.
  const int64_t head = 8;
  json text = {{"hidden_size", config.text.hidden_size},
               {"intermediate_size", 1},
               {"num_attention_heads", 1},
               {"num_key_value_heads", 1},
               {"vocab_size", 151936},
               {"num_hidden_layers", config.text.num_hidden_layers}};
  if (model_type == "qwen3_vl") {
    text["head_dim"] = head;
    text["rope_scaling"] = {{"mrope_section", {2, 1, 1}}};
  } else {
    text["rope_scaling"] = {{"mrope_section", {config.text.hidden_size / 2, 0, 0}}};
  }
  json as_qwen = {{"model_type", model_type}, {"text_config", text}, {"vision_config", own}};
  for (const auto& [name, id] : tokens.items()) as_qwen[name] = id;
  family::Findings theirs;
  config.qwen = qwen_vl::parse_config(as_qwen.dump(), theirs);
  findings.take(theirs, in_terms_of_compose);
  config.unknown_keys.insert(config.unknown_keys.end(), config.qwen->unknown_keys.begin(),
                             config.qwen->unknown_keys.end());
  config.qwen->text = config.text;
}

}  // namespace

ComposeConfig parse_config(const json& root, family::Findings& findings) {
  ComposeConfig config;
  const json &vision = table(root, "vision"), &decoder = table(root, "decoder");
  static const json kNone = json::object();
  const json& projector = root.contains("projector") ? table(root, "projector") : kNone;
  const json& numbers = root.contains("tokens") ? table(root, "tokens") : kNone;
  parse_decoder(decoder, config, findings);

  JsonFields bridge(projector, "config.json: projector", &findings);
  const int64_t merge = bridge.size("merge");
  config.projector.inner = bridge.at_least("inner", 0, 0);
  if (const std::string norm = bridge.text("norm", ""); !norm.empty()) {
    if (norm != "patch" && norm != "block") bridge.refuse("norm", "\"patch\" or \"block\"");
    config.projector.norm_patches = norm == "patch";
  }
  bridge.only("type", {"mlp"}, "the one projector there is");
  bridge.refuse_unread("a projector has merge, inner and norm");

  JsonFields tokens(numbers, "config.json: tokens", &findings);
  for (const char* name : {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"})
    tokens.integer(name);
  tokens.refuse_unread("tokens are image_token_id, video_token_id, vision_start_token_id and vision_end_token_id");

  JsonFields tower(vision, "config.json: vision", &findings);
  config.vision_type = tower.text("type", "");
  if (config.vision_type == "intern_vit") {
    parse_intern_vit(vision, merge, decoder, config, findings);
  } else if (config.vision_type == "qwen2_vit") {
    parse_qwen_vit(vision, merge, "qwen2_vl", numbers, config, findings);
  } else if (config.vision_type == "qwen2_5_vit") {
    parse_qwen_vit(vision, merge, "qwen2_5_vl", numbers, config, findings);
  } else if (config.vision_type == "qwen3_vit") {
    parse_qwen_vit(vision, merge, "qwen3_vl", numbers, config, findings);
  } else {
    tower.refuse("type", "intern_vit, qwen2_vit, qwen2_5_vit or qwen3_vit");
  }
  return config;
}

}  // namespace lf::compose
