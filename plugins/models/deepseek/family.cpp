#include "deepseek/family.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "family/json_fields.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::deepseek {
namespace {

// 0.1 m ln(s) + 1 (arXiv:2309.00071, equation 22).
double yarn_scale(double factor, double m) { return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1; }

nn::RotarySpec rotary(const DeepseekConfig& c) {
  if (!c.yarn) return nn::plain_rotary(c.qk_rope_head_dim, c.rope_theta);
  const YarnConfig& y = *c.yarn;
  nn::Yarn yarn{y.factor, y.beta_fast, y.beta_slow, y.original_positions, 1, y.truncate};
  if (y.attention_factor) {
    yarn.amplitude = *y.attention_factor;
  } else if (y.mscale != 0 && y.mscale_all_dim != 0) {
    yarn.amplitude = yarn_scale(y.factor, y.mscale) / yarn_scale(y.factor, y.mscale_all_dim);
  } else {
    yarn.amplitude = yarn_scale(y.factor, 1);
  }
  return nn::yarn_rotary(c.qk_rope_head_dim, c.rope_theta, yarn);
}

double score_scale(const DeepseekConfig& c) {
  const double plain = 1 / std::sqrt(static_cast<double>(c.qk_nope_head_dim + c.qk_rope_head_dim));
  if (!c.yarn || c.yarn->mscale_all_dim == 0) return plain;
  return plain * std::pow(yarn_scale(c.yarn->factor, c.yarn->mscale_all_dim), 2);
}

double at_least_zero(family::JsonFields& fields, const std::string& name, double fallback) {
  const double value = fields.number(name, fallback);
  if (!(value >= 0) || !std::isfinite(value)) fields.refuse(name, "a number of at least 0");
  return value;
}

}  // namespace

Options parse_options(const nlohmann::json& table, const DeepseekConfig& config, family::Findings& findings) {
  family::JsonFields fields(table, "model.options", &findings);
  Options options;
  const std::string indexer = fields.text("indexer", "sparse");
  if (indexer == "frozen") {
    options.indexer = components::IndexerStage::kFrozen;
  } else if (indexer == "off") {
    options.indexer = components::IndexerStage::kOff;
  } else if (indexer == "warmup") {
    options.indexer = components::IndexerStage::kWarmup;
  } else if (indexer != "sparse") {
    fields.refuse("indexer", "\"sparse\", \"warmup\", \"frozen\" or \"off\"");
  }
  if (fields.has("indexer") && !config.indexer) fields.refuse("indexer", "nothing: a deepseek_v3 model has no indexer");
  options.indexer_loss = at_least_zero(fields, "indexer_loss", options.indexer_loss);
  options.mtp = fields.flag("mtp", options.mtp);
  options.mtp_loss = at_least_zero(fields, "mtp_loss", options.mtp_loss);
  options.balance_loss = at_least_zero(fields, "balance_loss", options.balance_loss);
  options.bias_update_rate = at_least_zero(fields, "bias_update_rate", options.bias_update_rate);
  fields.refuse_unread(
      "deepseek has no such option; it has indexer, indexer_loss, mtp, mtp_loss, balance_loss and bias_update_rate");
  return options;
}

components::LatentDecoderConfig compose(const DeepseekConfig& c, bool mtp, const Options& options) {
  components::LatentDecoderConfig decoder;
  decoder.vocabulary = c.vocab_size;
  decoder.width = c.hidden_size;
  decoder.intermediate = c.intermediate_size;
  decoder.layers = c.num_hidden_layers;
  decoder.attention = {c.num_attention_heads, c.qk_nope_head_dim, c.qk_rope_head_dim,
                       c.v_head_dim,          c.kv_lora_rank,     score_scale(c)};
  decoder.query_rank = c.q_lora_rank;
  decoder.norm_eps = c.rms_norm_eps;
  decoder.deviation = c.initializer_range;
  decoder.rotary = rotary(c);
  decoder.padding_id = c.pad_token_id.value_or(-1);
  if (c.indexer) {
    decoder.indexed = true;
    decoder.index = {c.indexer->heads, c.indexer->size, c.indexer->top_k};
    decoder.index_pairs = c.indexer->interleaved ? nn::RotaryPairs::kNeighbours : nn::RotaryPairs::kHalves;
    decoder.stage = options.indexer;
    decoder.divergence_weight = options.indexer_loss;
  }
  decoder.experts = c.n_routed_experts;
  decoder.expert_width = c.moe_intermediate_size;
  decoder.shared_width = c.moe_intermediate_size * c.n_shared_experts;
  decoder.sparse_layers = c.sparse_layers;
  decoder.routing = {c.num_experts_per_tok, c.n_group, c.topk_group, c.norm_topk_prob, c.routed_scaling_factor};
  decoder.balance_weight = decoder.warms_up() ? 0 : options.balance_loss;
  decoder.bias_rate = decoder.warms_up() ? 0 : options.bias_update_rate;
  decoder.mtp = mtp;
  decoder.trains_mtp = mtp && options.mtp;
  decoder.mtp_weight = options.mtp_loss;
  return decoder;
}

}  // namespace lf::deepseek
