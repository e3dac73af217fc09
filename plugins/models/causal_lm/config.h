// A text model as its config.json says it: Llama, Qwen2, Qwen3 and Qwen3-MoE causal language models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "family/text_config.h"

namespace lf::causal_lm {

struct CausalLmConfig {
  std::string type;  // config.json's model_type
  family::TextConfig text;
  bool tie_word_embeddings = false;
  // Keys that the file has and this code does not know; the caller says so once.
  std::vector<std::string> unknown_keys;
};

// What may be left out has the reference's values (transformers 5.24). Mistakes are what is wrong, sizes that are not
// stated (family/json_fields.h), and what would change the maths and is not built: sliding windows, other rope types,
// biases. Throws sdk::Failure(LF_E_INVALID) for another model_type, after which nothing could be judged.
CausalLmConfig parse_config(std::string_view config_json, family::Findings& findings);
// Throws all mistakes as one sdk::Failure(LF_E_INVALID).
CausalLmConfig parse_config(std::string_view config_json);

}  // namespace lf::causal_lm
