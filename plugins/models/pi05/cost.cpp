#include "pi05/cost.h"

#include "family/cost.h"

namespace lf::pi05 {
namespace {

using family::totals;
using family::Work;

constexpr int64_t kValueBytes = 2;  // activations in bf16, the usual compute type

Work vision_work(const Pi05Config& c, int64_t unit, std::span<const double> atoms) {
  const auto [rows, pairs] = totals<std::size(kVisionFeatures)>(atoms);
  const auto width = static_cast<double>(c.vision_width), inner = static_cast<double>(c.vision_inner);
  Work work;
  work.out = rows * width;
  if (unit == 0) {
    work.linear = 2 * rows * width * static_cast<double>(c.patch_columns());
    work.saved = rows * static_cast<double>(c.patch_columns());
  } else if (unit <= c.vision_layers) {
    work.linear = 2 * rows * width * (4 * width + 2 * inner);
    work.attention = 4 * pairs * width;
    work.saved = rows * (6 * width + inner);  // in, qkv, attended, between; before the activation
    work.peak = rows * 3 * width;
  } else {
    work.linear = 2 * rows * width * static_cast<double>(c.vlm.width);
    work.saved = rows * width;
    work.out = rows * static_cast<double>(c.vlm.width);
  }
  return work;
}

// Of one decoder's layer: its own rows, and pairs that they look at.
Work gemma_layer(const Pi05Config& c, const DecoderSizes& sizes, double rows, double pairs) {
  const auto width = static_cast<double>(sizes.width), inner = static_cast<double>(sizes.inner);
  const auto queries = static_cast<double>(c.heads * c.head_size), keys = static_cast<double>(c.kv_heads * c.head_size);
  Work work;
  work.linear = 2 * rows * width * (2 * queries + 2 * keys + 3 * inner);
  work.attention = 4 * pairs * queries;
  work.saved = rows * (2 * width + 2 * queries + 2 * keys + 2 * inner);
  work.peak = rows * (queries + 2 * keys);
  work.out = rows * width;
  return work;
}

Work language_work(const Pi05Config& c, int64_t unit, std::span<const double> atoms) {
  const auto [rows, pairs] = totals<std::size(kLanguageFeatures)>(atoms);
  const auto width = static_cast<double>(c.vlm.width), memory = static_cast<double>(2 * c.kv_heads * c.head_size);
  Work work;
  if (unit == 0) {
    work.out = rows * width;
  } else if (unit < c.layers) {
    work = gemma_layer(c, c.vlm, rows, pairs);
    work.out += rows * memory;
  } else {  // of the last layer only keys and values
    work.linear = 2 * rows * width * memory;
    work.saved = rows * width;
    work.out = rows * memory;
  }
  return work;
}

Work action_work(const Pi05Config& c, int64_t unit, std::span<const double> atoms) {
  const auto [all_rows, loss_weight, rows, pairs, samples] = totals<std::size(kActionFeatures)>(atoms);
  const auto width = static_cast<double>(c.expert.width), columns = static_cast<double>(c.action_columns);
  Work work;
  if (unit == 0) {
    work.linear = 2 * rows * width * columns + 2 * samples * 2 * width * width;
    work.saved = rows * columns + samples * 2 * width;
    work.out = (rows + samples) * width;
  } else if (unit <= c.layers) {
    work = gemma_layer(c, c.expert, rows, pairs);
    work.linear += 2 * samples * width * 6 * width;
    work.saved += rows * 2 * width + samples * 6 * width +  // both products before their gates
                  (all_rows - rows) * static_cast<double>(2 * c.kv_heads * c.head_size);
    work.out = (rows + samples) * width;
  } else {
    work.linear = 2 * rows * width * columns + 2 * samples * width * 3 * width;
    work.saved = rows * width;
    work.peak = rows * columns * 2;
  }
  return work;
}

}  // namespace

family::Features features_of(std::span<const SampleSize> samples, const Pi05Config& config) {
  const auto image = static_cast<double>(config.image_rows()), horizon = static_cast<double>(config.horizon);
  family::Features features(3);
  double prefix_rows = 0, prefix_pairs = 0;
  std::vector<double> action(std::size(kActionFeatures), 0);
  for (const SampleSize& sample : samples) {
    for (int64_t i = 0; i < sample.images; ++i)
      features[kVision].insert(features[kVision].end(), {image, image * image});
    const double rows = static_cast<double>(sample.images) * image + static_cast<double>(sample.tokens);
    prefix_rows += rows;
    prefix_pairs += rows * rows;
    action[0] += rows + horizon;
    action[1] += static_cast<double>(sample.valid_actions);
    action[2] += horizon;
    action[3] += horizon * (rows + horizon);
    action[4] += 1;
  }
  if (prefix_rows > 0) features[kLanguage] = {prefix_rows, prefix_pairs};
  features[kAction] = action;
  return features;
}

lf_cost cost_of(const Pi05Config& config, uint32_t component, uint32_t unit, std::span<const double> atoms) {
  if (component == kVision) return vision_work(config, unit, atoms).cost(kValueBytes, unit > 0);
  if (component == kLanguage) return language_work(config, unit, atoms).cost(kValueBytes, unit > 0);
  return action_work(config, unit, atoms).cost(kValueBytes, unit > 0);
}

}  // namespace lf::pi05
