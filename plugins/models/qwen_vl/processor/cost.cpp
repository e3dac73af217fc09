#include "qwen_vl/processor/cost.h"

#include <algorithm>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

// Logits are held a chunk at a time (nn::TokenLossConfig): 64 MiB of f32, and as many rounded to bf16; in bf16 values.
constexpr double kLogitValues = 48 * 1024 * 1024;

// Squares of the lengths that cutting `side` into windows gives: sum over windows of (tokens in it)^2 is a product of
// two.
double squared_windows(int64_t side, int64_t window) {
  const auto whole = static_cast<double>(side / window), w = static_cast<double>(window),
             rest = static_cast<double>(side % window);
  return whole * w * w + rest * rest;
}

// Sums over atoms.
template <size_t N>
std::array<double, N> totals(std::span<const double> atoms) {
  if (atoms.size() % N != 0)
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("cost: expected {} features per atom, got {} numbers", N, atoms.size()));
  std::array<double, N> sums{};
  for (size_t i = 0; i < atoms.size(); ++i) sums[i % N] += atoms[i];
  return sums;
}

// rows x in times in x out: forward, and each of the two backward products, cost the same.
struct Work {
  double linear = 0;                    // of weights
  double attention = 0;                 // products without weights
  double saved = 0, peak = 0, out = 0;  // values

  lf_cost cost(int64_t value_bytes, bool input_gradient) const {
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
};

Work merger(const VisionConfig& v, double rows) {
  const double fold = static_cast<double>(v.spatial_merge_size * v.spatial_merge_size);
  const double width = static_cast<double>(v.hidden_size) * fold, tokens = rows / fold;
  const auto out = static_cast<double>(v.out_hidden_size);
  Work work;
  work.linear = 2 * tokens * width * (width + out);
  work.saved = tokens * 2 * width;  // rows, and what the activation gets
  work.out = tokens * out;
  return work;
}

Work vision_unit(const QwenVlConfig& config, int64_t unit, std::span<const double> atoms) {
  const VisionConfig& v = config.vision;
  const auto [rows, frame_pairs, window_pairs] = totals<3>(atoms);
  const auto width = static_cast<double>(v.hidden_size), inner = static_cast<double>(v.intermediate_size);
  Work work;
  if (unit == 0) {
    const auto columns = static_cast<double>(v.patch_columns());
    work.linear = 2 * rows * columns * width;
    work.saved = rows * columns;
    work.out = rows * width;
    return work;
  }
  if (unit == v.depth + 1) return merger(v, rows);
  const int64_t layer = unit - 1;
  const bool gated = config.family == Family::kQwen2_5Vl;
  const bool full = v.window_size == 0 || std::find(v.fullatt_block_indexes.begin(), v.fullatt_block_indexes.end(),
                                                    layer) != v.fullatt_block_indexes.end();
  work.linear = 2 * rows * width * (4 * width + inner * (gated ? 3 : 2));
  work.attention = 4 * (full ? frame_pairs : window_pairs) * width;
  work.saved = rows * (6 * width + inner * (gated ? 2 : 1));  // in, qkv, attended, between; before the activation
  work.peak = rows * 4 * width;
  work.out = rows * width;
  if (std::find(v.deepstack_visual_indexes.begin(), v.deepstack_visual_indexes.end(), layer) !=
      v.deepstack_visual_indexes.end()) {
    const Work extra = merger(v, rows);
    work.linear += extra.linear;
    work.saved += extra.saved;
    work.out += extra.out;
  }
  return work;
}

Work language_unit(const QwenVlConfig& config, int64_t unit, std::span<const double> atoms) {
  const TextConfig& t = config.text;
  const auto [rows, supervised, pairs] = totals<3>(atoms);
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
  work.saved = rows * (2 * width + 2 * queries + 2 * keys + 2 * inner);  // the same
  work.peak = rows * (queries + 2 * keys);
  return work;
}

}  // namespace

Features features_of(std::span<const Sequence> sequences, const QwenVlConfig& config) {
  const VisionConfig& v = config.vision;
  const int64_t window = v.window_size > 0 ? v.window_size / v.spatial_merge_size / v.patch_size : 0;
  const auto merge = static_cast<double>(v.spatial_merge_size);
  Features out;
  double rows = 0, supervised = 0, pairs = 0;
  for (const Sequence& sequence : sequences) {
    const auto length = static_cast<double>(sequence.rows());
    rows += length;
    supervised += static_cast<double>(sequence.supervised());
    pairs += length * (length + 1) / 2;
    for (const VisionInput& input : sequence.vision) {
      const auto patches = static_cast<double>(input.height * input.width);
      const double windowed = window == 0 ? 0
                                          : merge * merge * merge * merge *
                                                squared_windows(input.height / v.spatial_merge_size, window) *
                                                squared_windows(input.width / v.spatial_merge_size, window);
      for (int64_t group = 0; group < input.groups; ++group)
        out.vision.insert(out.vision.end(), {patches, patches * patches, windowed});
    }
  }
  out.language = {rows, supervised, pairs};
  return out;
}

lf_cost cost_of(const QwenVlConfig& config, uint32_t component, uint32_t unit, std::span<const double> atoms,
                int64_t value_bytes) {
  const int64_t units = component == 0 ? config.vision.depth + 2 : config.text.num_hidden_layers + 2;
  if (component > 1 || unit >= units)
    throw sdk::Failure(LF_E_INVALID, fmt::format("cost: component {} has no unit {}", component, unit));
  if (component == 0) return vision_unit(config, unit, atoms).cost(value_bytes, unit > 0);
  return language_unit(config, unit, atoms).cost(value_bytes, true);
}

}  // namespace lf::qwen_vl
