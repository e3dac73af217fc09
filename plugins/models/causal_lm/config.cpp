#include "causal_lm/config.h"

#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::causal_lm {

CausalLmConfig parse_config(std::string_view config_json) {
  const nlohmann::json root = nlohmann::json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) throw sdk::Failure(LF_E_INVALID, "config.json: not valid JSON; write it again");
  family::JsonFields fields(root, "config.json");
  CausalLmConfig config;
  config.type = fields.text("model_type", "");
  const auto rules = config.type == "internlm2" ? std::nullopt : family::text_rules(config.type);
  if (!rules) fields.refuse("model_type", "llama, qwen2, qwen3 or qwen3_moe; choose the family that knows it");
  family::ignore_bookkeeping(fields);
  config.text = family::parse_text(fields, *rules);
  config.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  config.unknown_keys = fields.unread_but_off("causal_lm");
  return config;
}

}  // namespace lf::causal_lm
