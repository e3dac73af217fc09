#include "pi05/data/normalizer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::robot {
namespace {

using nlohmann::json;

constexpr double kLeastRange = 1e-6, kLeastShare = 1e-4;

[[noreturn]] void refuse_statistics(const std::string& path, const std::string& reason) {
  throw sdk::Failure(LF_E_INVALID, path + ": " + reason);
}

}  // namespace

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
                                          name[0] == 'q' ? "run lerobot's augment_dataset_quantile_stats.py, or set "
                                                           "model.options.normalization = \"mean_std\""
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
  if (kind == Normalization::kQuantiles) {
    out.q01 = read("q01");
    out.q99 = read("q99");
    for (size_t i = 0; i < out.q01.size(); ++i)
      if (out.q99[i] < out.q01[i])
        refuse_statistics(path,
                          fmt::format("{}: number {} has q01 = {} above q99 = {}", feature, i, out.q01[i], out.q99[i]));
  } else {
    out.mean = read("mean");
  }
  return out;
}

Normalizer::Normalizer(const Statistics& statistics, Normalization kind, double floor) {
  if (kind == Normalization::kNone) return;
  const bool quantiles = kind == Normalization::kQuantiles;
  zero_ = quantiles ? statistics.q01 : statistics.mean;
  range_ = statistics.deviation;
  for (size_t i = 0; i < zero_.size(); ++i) {
    const double size =
        quantiles ? std::max(std::abs(statistics.q01[i]), std::abs(statistics.q99[i])) : std::abs(statistics.mean[i]);
    double least = std::max(kLeastRange, kLeastShare * size);
    if (quantiles) {
      range_[i] = statistics.q99[i] - statistics.q01[i];
      least = std::max(least, floor * statistics.deviation[i]);
    }
    if (range_[i] >= static_cast<float>(least)) continue;
    range_[i] = static_cast<float>(least);
    floored_.push_back(static_cast<int64_t>(i));
  }
  scale_ = quantiles ? 2 : 1;
  shift_ = quantiles ? 1 : 0;
}

void Normalizer::apply(std::span<float> values) const {
  for (size_t i = 0, width = zero_.size(); width > 0 && i < values.size(); ++i)
    values[i] = scale_ * (values[i] - zero_[i % width]) / range_[i % width] - shift_;
}

}  // namespace lf::robot
