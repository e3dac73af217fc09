#include "qwen_vl/processor/cost.h"

#include <algorithm>

#include <fmt/format.h>

#include "family/cost.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::qwen_vl {
namespace {

using family::Work;

// Squares of the lengths that cutting `side` into windows gives: sum over windows of (tokens in it)^2 is a product of
// two.
double squared_windows(int64_t side, int64_t window) {
  const auto whole = static_cast<double>(side / window), w = static_cast<double>(window),
             rest = static_cast<double>(side % window);
  return whole * w * w + rest * rest;
}

Work merger(const VisionConfig& v, double rows) {
  const int64_t folded = v.hidden_size * v.spatial_merge_size * v.spatial_merge_size;
  return family::merger_work(rows / static_cast<double>(v.spatial_merge_size * v.spatial_merge_size), folded, folded,
                             v.out_hidden_size);
}

Work vision_unit(const QwenVlConfig& config, int64_t unit, std::span<const double> atoms) {
  const VisionConfig& v = config.vision;
  const auto [rows, frame_pairs, window_pairs] = family::totals<3>(atoms);
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

}  // namespace

Features features_of(std::span<const Sequence> sequences, const QwenVlConfig& config) {
  const VisionConfig& v = config.vision;
  const int64_t window = v.window_size > 0 ? v.window_size / v.spatial_merge_size / v.patch_size : 0;
  const auto merge = static_cast<double>(v.spatial_merge_size);
  Features out;
  for (const Sequence& sequence : sequences)
    for (const VisionInput& input : sequence.vision) {
      const auto patches = static_cast<double>(input.height * input.width);
      const double windowed = window == 0 ? 0
                                          : merge * merge * merge * merge *
                                                squared_windows(input.height / v.spatial_merge_size, window) *
                                                squared_windows(input.width / v.spatial_merge_size, window);
      for (int64_t group = 0; group < input.groups; ++group)
        out.vision.insert(out.vision.end(), {patches, patches * patches, windowed});
    }
  out.language = family::language_features(sequences);
  return out;
}

lf_cost cost_of(const QwenVlConfig& config, uint32_t component, uint32_t unit, std::span<const double> atoms,
                int64_t value_bytes) {
  const int64_t units = component == 0 ? config.vision.depth + 2 : config.text.num_hidden_layers + 2;
  if (component > 1 || unit >= units)
    throw sdk::Failure(LF_E_INVALID, fmt::format("cost: component {} has no unit {}", component, unit));
  if (component == 0) return vision_unit(config, unit, atoms).cost(value_bytes, unit > 0);
  return family::decoder_work(config.text, unit, atoms).cost(value_bytes, true);
}

}  // namespace lf::qwen_vl
