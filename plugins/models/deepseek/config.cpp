#include "deepseek/config.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::deepseek {
namespace {

using family::JsonFields;
using nlohmann::json;

constexpr const char* kNotBuilt = "other values are not built into deepseek";
constexpr int64_t kFp8Block = 128;
constexpr uint64_t kLargestHeader = uint64_t{1} << 30;  // bytes of a safetensors header

// A list of strings; empty where absent.
std::vector<std::string> texts(JsonFields& fields, const json& object, const std::string& name) {
  fields.ignore({name.c_str()});
  if (!fields.has(name)) return {};
  const json& list = object[name];
  if (list.is_array() && std::all_of(list.begin(), list.end(), [](const json& v) { return v.is_string(); }))
    return list.get<std::vector<std::string>>();
  fields.refuse(name, "a list of strings");
  return {};
}

void parse_rope(JsonFields& fields, DeepseekConfig& c) {
  const json* parameters = fields.object("rope_parameters");
  const bool inside = parameters != nullptr && parameters->contains("rope_theta");
  c.rope_theta = fields.positive_number("rope_theta", inside ? 10000 : fields.usual("rope_theta", 10000.0));
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const json* object = fields.object(name);
    if (object == nullptr) continue;
    JsonFields inner = fields.inside(*object, fmt::format("{}.{}", fields.place(), name));
    c.rope_theta = inner.positive_number("rope_theta", c.rope_theta);
    const std::string type = inner.text(inner.has("rope_type") ? "rope_type" : "type", "default");
    inner.ignore({"type", "rope_type"});
    inner.only("partial_rotary_factor", {1, 1.0}, kNotBuilt);
    if (type == "default") {
      inner.ignore({"factor"});
    } else if (type == "yarn") {
      YarnConfig yarn;
      if (!inner.has("factor") || !inner.has("original_max_position_embeddings"))
        c.max_position_embeddings = fields.size("max_position_embeddings");
      yarn.original_positions = inner.positive("original_max_position_embeddings", c.max_position_embeddings);
      yarn.factor = inner.positive_number(
          "factor", static_cast<double>(c.max_position_embeddings) / static_cast<double>(yarn.original_positions));
      yarn.beta_fast = inner.positive_number("beta_fast", 32);
      yarn.beta_slow = inner.positive_number("beta_slow", 1);
      yarn.mscale = inner.number("mscale", 0);
      yarn.mscale_all_dim = inner.number("mscale_all_dim", 0);
      if (inner.has("attention_factor")) yarn.attention_factor = inner.positive_number("attention_factor", 1);
      yarn.truncate = inner.flag("truncate", true);
      c.yarn = yarn;
    } else {
      inner.refuse(inner.has("rope_type") ? "rope_type" : "type", "\"default\" or \"yarn\"");
    }
    inner.refuse_unread(kNotBuilt);
  }
}

void parse_experts(JsonFields& fields, const json& root, DeepseekConfig& c) {
  const char* count =
      fields.has("num_local_experts") && !fields.has("n_routed_experts") ? "num_local_experts" : "n_routed_experts";
  c.n_routed_experts = fields.size(count, JsonFields::kMostExperts);
  fields.ignore({"num_local_experts"});
  c.n_shared_experts = fields.size("n_shared_experts");
  c.moe_intermediate_size = fields.size("moe_intermediate_size");
  fields.together("moe_intermediate_size", c.moe_intermediate_size, count, c.n_routed_experts);
  fields.together("moe_intermediate_size", c.moe_intermediate_size, "n_shared_experts", c.n_shared_experts);
  c.num_experts_per_tok = fields.size("num_experts_per_tok");
  c.n_group = fields.size("n_group");
  c.topk_group = fields.size("topk_group");
  c.norm_topk_prob = fields.flag("norm_topk_prob", fields.usual("norm_topk_prob", true));
  c.routed_scaling_factor = fields.positive_number("routed_scaling_factor", fields.usual("routed_scaling_factor", 2.5));
  if (c.n_routed_experts % c.n_group != 0)
    fields.refuse("n_group", fmt::format("a divisor of the {} experts", c.n_routed_experts), {count});
  if (c.topk_group > c.n_group)
    fields.refuse("topk_group", fmt::format("at most the {} groups", c.n_group), {"n_group"});
  const int64_t open = c.n_routed_experts / c.n_group * c.topk_group;
  if (c.num_experts_per_tok > open)
    fields.refuse("num_experts_per_tok", fmt::format("at most the {} experts of {} groups", open, c.topk_group),
                  {count, "n_group", "topk_group"});
  fields.only("scoring_func", {"sigmoid"}, kNotBuilt);
  fields.only("topk_method", {"noaux_tc"}, kNotBuilt);

  if (!fields.has("mlp_layer_types") && !fields.has("first_k_dense_replace"))
    fields.refuse("first_k_dense_replace", "an integer of at least 0, as it must be stated (or mlp_layer_types)");
  const int64_t dense = fields.at_least("first_k_dense_replace", 0, 0);
  const int64_t every = fields.positive("moe_layer_freq", 1);
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
    c.sparse_layers.push_back(layer >= dense && layer % every == 0);
  const std::vector<std::string> types = texts(fields, root, "mlp_layer_types");
  if (types.empty() || !fields.sound({"num_hidden_layers"})) return;
  if (static_cast<int64_t>(types.size()) != c.num_hidden_layers)
    return fields.refuse("mlp_layer_types", fmt::format("{} entries, one a layer", c.num_hidden_layers));
  for (size_t layer = 0; layer < types.size(); ++layer) {
    if (types[layer] != "dense" && types[layer] != "sparse")
      fields.refuse("mlp_layer_types", "\"dense\" and \"sparse\" only");
    c.sparse_layers[layer] = types[layer] == "sparse";
  }
}

void parse_indexer(JsonFields& fields, const json& root, DeepseekConfig& c) {
  IndexerConfig indexer;
  indexer.heads = fields.size("index_n_heads");
  indexer.size = fields.size("index_head_dim");
  fields.together("index_head_dim", indexer.size, "index_n_heads", indexer.heads);
  indexer.top_k = fields.size("index_topk");
  indexer.interleaved = fields.flag("indexer_rope_interleave", false);
  if (indexer.size < c.qk_rope_head_dim)
    fields.refuse("index_head_dim", fmt::format("at least qk_rope_head_dim, {}", c.qk_rope_head_dim),
                  {"qk_rope_head_dim"});
  if (c.q_lora_rank == 0) fields.refuse("q_lora_rank", "an integer: the indexer's queries come from it");
  for (const std::string& type : texts(fields, root, "layer_types"))
    if (type != "indexed_attention") fields.refuse("layer_types", "\"indexed_attention\" everywhere");
  c.indexer = indexer;
}

void parse_quantization(JsonFields& fields) {
  const json* object = fields.object("quantization_config");
  if (object == nullptr) return;
  JsonFields inner = fields.inside(*object, fields.place() + ".quantization_config");
  inner.only("quant_method", {"fp8"}, kNotBuilt);
  inner.only("fmt", {"e4m3"}, kNotBuilt);
  inner.only("weight_block_size", {json::array({kFp8Block, kFp8Block})}, kNotBuilt);
}

}  // namespace

DeepseekConfig parse_config(std::string_view config_json) {
  return family::read_whole([&](family::Findings& findings) { return parse_config(config_json, findings); });
}

DeepseekConfig parse_config(std::string_view config_json, family::Findings& findings) {
  const json root = json::parse(config_json, nullptr, false);
  JsonFields fields(root, "config.json", &findings);
  DeepseekConfig c;
  const std::string type = fields.text("model_type", "");
  if (type != "deepseek_v3" && type != "deepseek_v32")
    throw sdk::Failure(LF_E_INVALID, fmt::format("config.json.model_type: expected \"deepseek_v3\" or "
                                                 "\"deepseek_v32\", got \"{}\"; choose the model family that knows it",
                                                 type));
  c.vocab_size = fields.size("vocab_size");
  c.hidden_size = fields.size("hidden_size");
  c.intermediate_size = fields.size("intermediate_size");
  c.num_hidden_layers = fields.size("num_hidden_layers", JsonFields::kMostLayers);
  c.num_attention_heads = fields.size("num_attention_heads");
  if (fields.positive("num_key_value_heads", c.num_attention_heads) != c.num_attention_heads)
    fields.refuse("num_key_value_heads", fmt::format("num_attention_heads, {}", c.num_attention_heads),
                  {"num_attention_heads"});
  // null says that there is none.
  c.q_lora_rank = root.contains("q_lora_rank") && root["q_lora_rank"].is_null() ? 0 : fields.size("q_lora_rank");
  fields.ignore({"q_lora_rank"});
  c.kv_lora_rank = fields.size("kv_lora_rank");
  c.qk_nope_head_dim = fields.size("qk_nope_head_dim");
  c.qk_rope_head_dim = fields.size("qk_rope_head_dim");
  c.v_head_dim = fields.size("v_head_dim");
  for (const auto& [name, size] : {std::pair{"qk_nope_head_dim", c.qk_nope_head_dim},
                                   {"qk_rope_head_dim", c.qk_rope_head_dim},
                                   {"v_head_dim", c.v_head_dim}})
    fields.together(name, size, "num_attention_heads", c.num_attention_heads);
  if (c.qk_rope_head_dim % 2 != 0) fields.refuse("qk_rope_head_dim", "an even number");
  if (fields.positive("qk_head_dim", c.qk_nope_head_dim + c.qk_rope_head_dim) !=
      c.qk_nope_head_dim + c.qk_rope_head_dim)
    fields.refuse("qk_head_dim", "qk_nope_head_dim + qk_rope_head_dim", {"qk_nope_head_dim", "qk_rope_head_dim"});
  if (fields.positive("head_dim", c.qk_rope_head_dim) != c.qk_rope_head_dim)
    fields.refuse("head_dim", fmt::format("qk_rope_head_dim, {}", c.qk_rope_head_dim), {"qk_rope_head_dim"});
  c.max_position_embeddings = fields.positive("max_position_embeddings", 1);  // of use to YaRN alone
  c.rms_norm_eps = fields.positive_number("rms_norm_eps", fields.usual("rms_norm_eps", 1e-6));
  c.initializer_range = fields.positive_number("initializer_range", 0.02);
  c.pad_token_id = fields.integer("pad_token_id");
  c.bos_token_id = fields.integer("bos_token_id");
  c.eos_token_id = fields.integer("eos_token_id");
  parse_rope(fields, c);
  parse_experts(fields, root, c);
  if (type == "deepseek_v32") parse_indexer(fields, root, c);
  parse_quantization(fields);
  if (fields.has("num_nextn_predict_layers")) {
    c.num_nextn_predict_layers = fields.at_least("num_nextn_predict_layers", 0, 0);
    if (*c.num_nextn_predict_layers > 1) fields.refuse("num_nextn_predict_layers", "0 or 1; more are not built");
  }
  fields.ignore({"num_nextn_predict_layers"});

  fields.only("hidden_act", {"silu"}, kNotBuilt);
  fields.only("attention_bias", {false}, kNotBuilt);
  fields.only("mlp_bias", {false}, kNotBuilt);
  fields.only("attention_dropout", {0, 0.0}, kNotBuilt);
  fields.only("tie_word_embeddings", {false}, kNotBuilt);
  fields.only("rope_interleave", {true}, kNotBuilt);
  fields.only("pretraining_tp", {1}, kNotBuilt);
  fields.ignore({"architectures",
                 "model_type",
                 "torch_dtype",
                 "dtype",
                 "transformers_version",
                 "use_cache",
                 "auto_map",
                 "_name_or_path",
                 "id2label",
                 "label2id",
                 "is_encoder_decoder",
                 "output_attentions",
                 "output_hidden_states",
                 "output_router_logits",
                 "problem_type",
                 "return_dict",
                 "ep_size",
                 "chunk_size_feed_forward",
                 "aux_loss_alpha",
                 "seq_aux",
                 "layer_types",
                 "_attn_implementation"});
  c.unknown_keys = fields.unread_but_off("deepseek");
  return c;
}

bool holds_prediction_module(const std::string& folder, int64_t layers) {
  const std::string wanted = fmt::format("model.layers.{}.eh_proj.weight", layers);
  const auto names_it = [&](const json& names) { return names.is_object() && names.contains(wanted); };
  const std::filesystem::path path(folder);
  if (std::ifstream in(path / "model.safetensors.index.json"); in) {
    const json index = json::parse(in, nullptr, false);
    return index.is_object() && index.contains("weight_map") && names_it(index["weight_map"]);
  }
  std::ifstream in(path / "model.safetensors", std::ios::binary);
  char size_bytes[8];
  if (!in.read(size_bytes, sizeof size_bytes)) return false;
  uint64_t size = 0;
  std::memcpy(&size, size_bytes, sizeof size);
  if (size > kLargestHeader) return false;  // whoever reads the weights says what is wrong
  std::string header(size, '\0');
  if (!in.read(header.data(), static_cast<std::streamsize>(size))) return false;
  return names_it(json::parse(header, nullptr, false));
}

}  // namespace lf::deepseek
