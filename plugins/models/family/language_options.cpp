#include "family/language_options.h"

namespace lf::family {

components::BalanceLoss read_router_aux_loss(JsonFields& options, bool has_experts) {
  const std::string aux = options.text("router_aux_loss", "none");
  if (aux == "none") return components::BalanceLoss::kNone;
  if (aux != "sample" && aux != "batch") options.refuse("router_aux_loss", "\"none\", \"sample\" or \"batch\"");
  if (!has_experts) options.refuse("router_aux_loss", "\"none\" for a model without experts");
  return aux == "sample" ? components::BalanceLoss::kPerSample : components::BalanceLoss::kPerBatch;
}

components::LanguageDecoderConfig language_decoder(const TextConfig& t, components::BalanceLoss balance) {
  components::LanguageDecoderConfig decoder;
  decoder.vocabulary = t.vocab_size;
  decoder.width = t.hidden_size;
  decoder.intermediate = t.intermediate_size;
  decoder.layers = t.num_hidden_layers;
  decoder.heads = t.num_attention_heads;
  decoder.kv_heads = t.num_key_value_heads;
  decoder.head_size = t.head_dim;
  decoder.norm_eps = t.rms_norm_eps;
  decoder.deviation = t.initializer_range;
  if (t.mrope_section.empty()) decoder.rotary = nn::plain_rotary(t.head_dim, t.rope_theta);
  decoder.qkv_bias = t.qkv_bias;
  decoder.head_norms = t.head_norms;
  decoder.padding_id = t.pad_token_id.value_or(-1);
  if (t.num_experts > 0) {
    decoder.experts.count = t.num_experts;
    decoder.experts.per_token = t.num_experts_per_tok;
    decoder.experts.normalise = t.norm_topk_prob;
    decoder.experts.width = t.moe_intermediate_size;
    for (int64_t layer = 0; layer < t.num_hidden_layers; ++layer)
      decoder.experts.sparse_layers.push_back(t.is_sparse(layer));
    decoder.experts.balance = balance;
    decoder.experts.balance_coefficient = t.router_aux_loss_coef;
  }
  return decoder;
}

}  // namespace lf::family
