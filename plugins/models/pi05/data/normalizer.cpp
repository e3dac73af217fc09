#include "pi05/data/normalizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::robot {
namespace {

using nlohmann::json;

constexpr double kLeastRange = 1e-6, kLeastShare = 1e-4;

bool is_range(Normalization kind) { return kind != Normalization::kMeanDeviation && kind != Normalization::kNone; }

[[noreturn]] void refuse_statistics(const std::string& path, const std::string& reason) {
  throw sdk::Failure(LF_E_INVALID, path + ": " + reason);
}

}  // namespace

std::pair<const char*, const char*> range_names(Normalization kind) {
  if (kind == Normalization::kRange) return {"min", "max"};
  return kind == Normalization::kInnerQuantiles ? std::pair{"q10", "q90"} : std::pair{"q01", "q99"};
}

Shares shares_of(Normalization kind) {
  if (kind == Normalization::kQuantiles) return {0.01, 0.99};
  return kind == Normalization::kInnerQuantiles ? Shares{0.1, 0.9} : Shares{};
}

Statistics read_statistics(const json& stats, const std::string& feature, int64_t width, Normalization kind,
                           const std::string& path) {
  Statistics out;
  if (kind == Normalization::kNone) return out;
  const json of_feature = stats.value(feature, json());
  if (!of_feature.is_object()) refuse_statistics(path, fmt::format("expected statistics of \"{}\"", feature));
  const auto read = [&](const char* name) {
    const json list = of_feature.value(name, json());
    if (list.is_null())
      refuse_statistics(path, fmt::format("{}: expected {}, got none; {}", feature, name,
                                          name[0] == 'q' ? "run lerobot's augment_dataset_quantile_stats.py, or choose "
                                                           "mean_std (model.options.normalization, or the config's "
                                                           "normalization_mapping)"
                                                         : "let lerobot compute the statistics anew"));
    if (!list.is_array() || static_cast<int64_t>(list.size()) != width)
      refuse_statistics(path, fmt::format("{}.{}: expected {} numbers, got {}", feature, name, width,
                                          list.is_array() ? std::to_string(list.size()) : list.dump()));
    std::vector<float> values;
    for (const json& one : list) {
      if (!one.is_number() || !std::isfinite(one.get<float>()))
        refuse_statistics(path, fmt::format("{}.{}: expected finite numbers, got {}", feature, name, one.dump()));
      values.push_back(one.get<float>());
    }
    return values;
  };
  out.deviation = read("std");
  if (is_range(kind)) {
    const auto [low, high] = range_names(kind);
    out.low = read(low);
    out.high = read(high);
    for (size_t i = 0; i < out.low.size(); ++i)
      if (out.high[i] < out.low[i])
        refuse_statistics(path, fmt::format("{}: number {} has {} = {} above {} = {}", feature, i, low, out.low[i],
                                            high, out.high[i]));
  } else {
    out.mean = read("mean");
  }
  return out;
}

Normalizer::Normalizer(const Statistics& statistics, Normalization kind, double floor) {
  if (kind == Normalization::kNone) return;
  const bool range = is_range(kind);
  used_ = statistics;
  zero_ = range ? statistics.low : statistics.mean;
  range_ = statistics.deviation;
  for (size_t i = 0; i < zero_.size(); ++i) {
    const double size =
        range ? std::max(std::abs(statistics.low[i]), std::abs(statistics.high[i])) : std::abs(statistics.mean[i]);
    double least = std::max(kLeastRange, kLeastShare * size);
    if (range) {
      range_[i] = statistics.high[i] - statistics.low[i];
      least = std::max(least, floor * statistics.deviation[i]);
    }
    if (range_[i] >= static_cast<float>(least)) continue;
    floored_.push_back(static_cast<int64_t>(i));
    if (range) {  // what the difference of the two is in single precision, so that who goes by them has it too
      used_.high[i] = static_cast<float>(used_.low[i] + least);
      range_[i] = used_.high[i] - used_.low[i];
    } else {
      used_.deviation[i] = range_[i] = static_cast<float>(least);
    }
  }
  scale_ = range ? 2 : 1;
  shift_ = range ? 1 : 0;
}

void Normalizer::apply(std::span<float> values) const {
  for (size_t i = 0, width = zero_.size(); width > 0 && i < values.size(); ++i)
    values[i] = scale_ * (values[i] - zero_[i % width]) / range_[i % width] - shift_;
}

}  // namespace lf::robot
