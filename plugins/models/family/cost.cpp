#include "family/cost.h"

#include <algorithm>

namespace lf::family {
namespace {

// Logits are held a chunk at a time (nn::TokenLossConfig): 64 MiB of f32, and as many rounded to bf16; in bf16 values.
constexpr double kLogitValues = 48 * 1024 * 1024;

}  // namespace

lf_cost Work::cost(int64_t value_bytes, bool input_gradient) const {
  auto cost = sdk::with_header<lf_cost>();
  cost.forward_flops = linear + attention;
  cost.input_flops = (input_gradient ? linear : 0) + 2 * attention;
  cost.weight_flops = linear;
  const auto bytes = static_cast<double>(value_bytes);
  cost.saved_bytes = static_cast<int64_t>(saved * bytes);
  cost.peak_bytes = static_cast<int64_t>(peak * bytes);
  cost.out_bytes = static_cast<int64_t>(out * bytes);
  return cost;
}

Work merger_work(double tokens, int64_t in, int64_t inner, int64_t out) {
  const auto wide = static_cast<double>(in), middle = static_cast<double>(inner), narrow = static_cast<double>(out);
  Work work;
  work.linear = 2 * tokens * middle * (wide + narrow);
  work.saved = tokens * (wide + middle);  // rows, and what the activation gets
  work.out = tokens * narrow;
  return work;
}

Work decoder_work(const TextConfig& t, int64_t unit, std::span<const double> atoms, double supervised) {
  const auto [rows, loss_weight, pairs] = totals<3>(atoms);
  if (supervised < 0) supervised = loss_weight;
  const auto width = static_cast<double>(t.hidden_size);
  Work work;
  work.out = rows * width;
  if (unit == 0) return work;
  if (unit == t.num_hidden_layers + 1) {
    const auto vocabulary = static_cast<double>(t.vocab_size);
    work.linear = 2 * supervised * width * vocabulary;
    work.saved = supervised * width;
    work.peak = std::min(3 * supervised * vocabulary, kLogitValues);
    work.out = 0;
    return work;
  }
  const double queries = static_cast<double>(t.num_attention_heads * t.head_dim),
               keys = static_cast<double>(t.num_key_value_heads * t.head_dim);
  const bool sparse = t.is_sparse(unit - 1);
  const double inner = sparse ? static_cast<double>(t.num_experts_per_tok * t.moe_intermediate_size)
                              : static_cast<double>(t.intermediate_size);
  work.linear =
      2 * rows * width * (2 * queries + 2 * keys + 3 * inner + (sparse ? static_cast<double>(t.num_experts) : 0));
  work.attention = 4 * pairs * queries;
  work.saved = rows * (2 * width + 2 * queries + 2 * keys + 2 * inner);  // in, qkv, attended, between; gate and up
  work.peak = rows * (queries + 2 * keys);
  return work;
}

std::vector<double> language_features(std::span<const Sequence> sequences) {
  double rows = 0, supervised = 0, pairs = 0;
  for (const Sequence& sequence : sequences) {
    const auto length = static_cast<double>(sequence.rows());
    rows += length;
    supervised += static_cast<double>(sequence.supervised());
    pairs += length * (length + 1) / 2;
  }
  return {rows, supervised, pairs};
}

}  // namespace lf::family
