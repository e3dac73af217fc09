#include "causal_lm/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::causal_lm {

CausalLmConfig parse_config(std::string_view config_json) {
  return family::read_whole([&](family::Findings& findings) { return parse_config(config_json, findings); });
}

CausalLmConfig parse_config(std::string_view config_json, family::Findings& findings) {
  const nlohmann::json root = nlohmann::json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) throw sdk::Failure(LF_E_INVALID, "config.json: not valid JSON; write it again");
  family::JsonFields fields(root, "config.json", &findings);
  CausalLmConfig config;
  config.type = fields.text("model_type", "");
  const auto rules = config.type == "internlm2" ? std::nullopt : family::text_rules(config.type);
  if (!rules)
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("config.json.model_type: expected llama, qwen2, qwen3 or qwen3_moe, got \"{}\"; "
                                   "choose the family that knows it",
                                   config.type));
  family::ignore_bookkeeping(fields);
  config.text = family::parse_text(fields, *rules);
  config.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  config.unknown_keys = fields.unread_but_off("causal_lm");
  return config;
}

}  // namespace lf::causal_lm
