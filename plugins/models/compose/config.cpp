#include "compose/config.h"

#include <cstring>
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

// The tower's family speaks of its own config.json, of which this one has the tables by other names.
template <typename Parse>
auto in_terms_of_compose(Parse&& parse) {
  try {
    return parse();
  } catch (const sdk::Failure& failure) {
    std::string said = failure.what();
    for (const auto& [theirs, ours] : {std::pair{"config.json: vision_config", "config.json: vision"},
                                       {"config.json: text_config", "config.json: decoder"}})
      if (const size_t at = said.find(theirs); at != std::string::npos) said.replace(at, std::strlen(theirs), ours);
    throw sdk::Failure(failure.code(), said);
  }
}

void parse_decoder(const json& object, ComposeConfig& config) {
  JsonFields fields(object, "config.json: decoder");
  config.decoder_type = fields.text("type", "");
  const auto rules = config.decoder_type == "internlm2" ? std::nullopt : family::text_rules(config.decoder_type);
  if (!rules) fields.refuse("type", "llama, qwen2, qwen3 or qwen3_moe");
  family::ignore_bookkeeping(fields);
  config.text = family::parse_text(fields, *rules);
  config.tied = fields.flag("tie_word_embeddings", false);
  for (const std::string& name : fields.unread_but_off("compose")) config.unknown_keys.push_back(name);
}

void parse_intern_vit(const json& vision, int64_t merge, const json& decoder, ComposeConfig& config) {
  json text = without(decoder, {"type"});
  text["model_type"] = config.decoder_type;
  json as_internvl = {{"model_type", "internvl"},
                      {"downsample_ratio", 1.0 / static_cast<double>(merge)},
                      {"text_config", std::move(text)},
                      {"vision_config", without(vision, {"type"})}};
  // Which token stands for a picture is the tokenizer's to say.
  as_internvl["image_token_id"] = 0;
  config.intern = in_terms_of_compose([&] { return internvl::parse_config(as_internvl.dump()); });
  config.intern->image_token_id = std::nullopt;
  config.unknown_keys.insert(config.unknown_keys.end(), config.intern->unknown_keys.begin(),
                             config.intern->unknown_keys.end());
}

void parse_qwen_vit(const json& vision, int64_t merge, const std::string& model_type, const json& tokens,
                    ComposeConfig& config) {
  json own = without(vision, {"type"});
  own[model_type == "qwen2_vl" ? "hidden_size" : "out_hidden_size"] = config.text.hidden_size;
  own["spatial_merge_size"] = merge;
  if (model_type == "qwen3_vl" && !own.contains("deepstack_visual_indexes"))
    own["deepstack_visual_indexes"] = json::array();
  // A text half that agrees in width; the decoder takes its place.
  const int64_t head = 8;
  json text = {{"hidden_size", config.text.hidden_size},
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
  config.qwen = in_terms_of_compose([&] { return qwen_vl::parse_config(as_qwen.dump()); });
  config.unknown_keys.insert(config.unknown_keys.end(), config.qwen->unknown_keys.begin(),
                             config.qwen->unknown_keys.end());
  config.qwen->text = config.text;
}

}  // namespace

ComposeConfig parse_config(const json& root) {
  ComposeConfig config;
  const json &vision = table(root, "vision"), &decoder = table(root, "decoder");
  static const json kNone = json::object();
  const json& projector = root.contains("projector") ? table(root, "projector") : kNone;
  parse_decoder(decoder, config);

  JsonFields bridge(projector, "config.json: projector");
  const int64_t merge = bridge.positive("merge", 2);
  config.projector.inner = bridge.at_least("inner", 0, 0);
  if (const std::string norm = bridge.text("norm", ""); !norm.empty()) {
    if (norm != "patch" && norm != "block") bridge.refuse("norm", "\"patch\" or \"block\"");
    config.projector.norm_patches = norm == "patch";
  }
  bridge.only("type", {"mlp"}, "the one projector there is");
  if (const auto unread = bridge.unread(); !unread.empty())
    throw sdk::Failure(LF_E_INVALID, unread.front() + ": a projector has merge, inner and norm");

  const json& numbers = root.contains("tokens") ? table(root, "tokens") : kNone;
  JsonFields tokens(numbers, "config.json: tokens");
  for (const char* name : {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"})
    tokens.integer(name);
  if (const auto unread = tokens.unread(); !unread.empty())
    throw sdk::Failure(LF_E_INVALID, unread.front() +
                                         ": tokens are image_token_id, video_token_id, "
                                         "vision_start_token_id and vision_end_token_id");

  JsonFields tower(vision, "config.json: vision");
  config.vision_type = tower.text("type", "");
  if (config.vision_type == "intern_vit") {
    parse_intern_vit(vision, merge, decoder, config);
  } else if (config.vision_type == "qwen2_vit") {
    parse_qwen_vit(vision, merge, "qwen2_vl", numbers, config);
  } else if (config.vision_type == "qwen2_5_vit") {
    parse_qwen_vit(vision, merge, "qwen2_5_vl", numbers, config);
  } else if (config.vision_type == "qwen3_vit") {
    parse_qwen_vit(vision, merge, "qwen3_vl", numbers, config);
  } else {
    tower.refuse("type", "intern_vit, qwen2_vit, qwen2_5_vit or qwen3_vit");
  }
  return config;
}

}  // namespace lf::compose
