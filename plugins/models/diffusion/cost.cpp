#include "diffusion/cost.h"

#include <array>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::diffusion {
namespace {

constexpr size_t kWidth = std::size(kFeatures);
constexpr double kTimeColumns = 256, kMlpRatio = 4;

struct Totals {
  double rows = 0, samples = 0, image_rows = 0, pairs = 0, cross_pairs = 0, conditionings = 0;
  double text_rows() const { return rows - image_rows; }
};

Totals totals(std::span<const double> atoms) {
  if (atoms.size() % kWidth != 0)
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("cost: expected {} features per sample, got {} numbers", kWidth, atoms.size()));
  std::array<double, kWidth> sums{};
  for (size_t i = 0; i < atoms.size(); ++i) sums[i % kWidth] += atoms[i];
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]};
}

struct Work {
  double linear = 0;                    // of weights
  double attention = 0;                 // products without weights
  double saved = 0, peak = 0, out = 0;  // values
};

Work dual_stream_unit(const DiffusionConfig& config, int64_t unit, const Totals& t) {
  const auto width = static_cast<double>(config.width());
  const int64_t layers = config.layers + config.single_layers;
  Work work;
  work.out = t.rows * width;
  if (unit == 0) {
    work.linear = 2 * width *
                  (t.image_rows * static_cast<double>(config.in_columns()) +
                   t.text_rows() * static_cast<double>(config.text_columns) +
                   t.conditionings * (kTimeColumns + width) * (config.guidance ? 2 : 1));
    if (config.pooled_columns > 0)
      work.linear += 2 * t.samples * width * (static_cast<double>(config.pooled_columns) + width);
    work.saved = t.image_rows * static_cast<double>(config.in_columns()) +
                 t.text_rows() * static_cast<double>(config.text_columns);
  } else if (unit == layers + 1) {
    work.linear = 2 * width * (t.image_rows * static_cast<double>(config.out_columns()) + t.conditionings * 2 * width);
    work.saved = t.image_rows * width;
    work.peak = t.image_rows * static_cast<double>(config.out_columns()) * 2;
    work.out = 0;
  } else {
    const bool two = unit <= config.layers;
    const bool last = two && unit == layers;  // of the text only keys and values are wanted
    const double text = last ? t.text_rows() : 0;
    work.linear = 2 * width * width *
                  ((4 + 2 * kMlpRatio) * t.rows - (1 + 2 * kMlpRatio) * text + t.conditionings * (two ? 12 : 3));
    work.attention = 4 * t.pairs * width;
    // In, qkv of the stream and of attention, attended twice; of two streams also between, both products, before the
    // activation.
    work.saved = t.rows * width * (two ? 12 + kMlpRatio : 10 + kMlpRatio);
    work.peak = t.rows * width * (2 + 2 * kMlpRatio);
  }
  return work;
}

Work wan_unit(const DiffusionConfig& config, int64_t unit, const Totals& t) {
  const auto width = static_cast<double>(config.width()), inner = static_cast<double>(config.inner);
  Work work;
  work.out = t.rows * width;
  if (unit == 0) {
    work.linear = 2 * width *
                  (t.image_rows * static_cast<double>(config.in_columns()) +
                   t.text_rows() * (static_cast<double>(config.text_columns) + width) +
                   t.conditionings * (static_cast<double>(config.time_columns) + 7 * width));
    work.saved = t.image_rows * static_cast<double>(config.in_columns()) +
                 t.text_rows() * (static_cast<double>(config.text_columns) + width);
  } else if (unit == config.layers + 1) {
    work.linear = 2 * width * t.image_rows * static_cast<double>(config.out_columns());
    work.saved = t.image_rows * width;
    work.peak = t.image_rows * static_cast<double>(config.out_columns()) * 2;
    work.out = 0;
  } else {
    work.linear = 2 * width * (t.image_rows * (6 * width + 2 * inner) + t.text_rows() * 2 * width);
    work.attention = 4 * (t.pairs + t.cross_pairs) * width;
    work.saved = t.image_rows * (15 * width + inner) + t.text_rows() * 4 * width;
    work.peak = t.image_rows * (2 * width + 2 * inner);
  }
  return work;
}

}  // namespace

std::vector<double> features_of(std::span<const PackedSample> samples, const DiffusionConfig& config) {
  const bool wan = config.architecture == Architecture::kWan;
  std::vector<double> sums(kWidth, 0);
  for (const PackedSample& sample : samples) {
    const auto image = static_cast<double>(sample.image_rows), text = static_cast<double>(sample.text_rows);
    sums[0] += image + text;
    sums[1] += 1;
    sums[2] += image;
    sums[3] += wan ? image * image : (image + text) * (image + text);
    sums[4] += wan ? image * text : 0;
    sums[5] += static_cast<double>(sample.times.size());
  }
  return sums;
}

lf_cost cost_of(const DiffusionConfig& config, uint32_t unit, std::span<const double> atoms, int64_t value_bytes) {
  const Totals sums = totals(atoms);
  const Work work =
      config.architecture == Architecture::kWan ? wan_unit(config, unit, sums) : dual_stream_unit(config, unit, sums);
  auto cost = sdk::with_header<lf_cost>();
  cost.forward_flops = work.linear + work.attention;
  cost.input_flops = (unit > 0 ? work.linear : 0) + 2 * work.attention;
  cost.weight_flops = work.linear;
  const auto bytes = static_cast<double>(value_bytes);
  cost.saved_bytes = static_cast<int64_t>(work.saved * bytes);
  cost.peak_bytes = static_cast<int64_t>(work.peak * bytes);
  cost.out_bytes = static_cast<int64_t>(work.out * bytes);
  return cost;
}

}  // namespace lf::diffusion
