// States and actions to the range that the model is trained on. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "pi05/data/robot_options.h"

namespace lf::robot {

// Of each number of a vector. Empty where not known.
struct Statistics {
  std::vector<float> mean, deviation;
  std::vector<float> low, high;  // q01 and q99; or q10 and q90; or the least and the greatest: what becomes -1 and 1
};

// What stats.json calls low and high; of a kind that has them.
std::pair<const char*, const char*> range_names(Normalization kind);

// Which shares of all values lie below low and high: 0.01 and 0.99 for kQuantiles.
struct Shares {
  double low = 0, high = 1;
};
Shares shares_of(Normalization kind);

// Of one feature of a stats.json, `width` numbers each. `place`: "PATH: action". Throws sdk::Failure(LF_E_INVALID)
// where those that `kind` and the floor need are missing, of another length or not finite.
Statistics read_statistics(const nlohmann::json& stats, const std::string& feature, int64_t width, Normalization kind,
                           const std::string& path);

// kMeanDeviation: (x - mean) / deviation; the others: 2 (x - low) / (high - low) - 1; in single precision (openpi,
// transforms.Normalize; lerobot 0.6.1, normalize_processor.py).
//
// Where nearly all values are equal, high - low is next to nothing and the few others would become thousands (openpi
// issue 814). So the range is at least `floor` deviations. True quantiles are further apart wherever values are spread:
// 2 deviations for two values, 3.4 for uniform ones, 4.7 for normal ones; but lerobot averages those of single
// episodes, which can be 1 apart for sound data (it is so in tests/fixtures/robot/pusht). A number that never changes
// has a range of at least 1e-4 of its size, and 1e-6, so that the rounding of a file in single precision stays small.
class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  Normalizer(const Statistics& statistics, Normalization kind, double floor);

  // rows of [width] numbers, in place.
  void apply(std::span<float> values) const;
  // Which numbers of the vector have a range that was floored.
  const std::vector<int64_t>& floored() const { return floored_; }
  // With the floors put in: by the formulas above, which know of none, they give the same numbers.
  const Statistics& statistics() const { return used_; }

 private:
  Statistics used_;
  std::vector<float> zero_, range_;
  float scale_ = 1, shift_ = 0;
  std::vector<int64_t> floored_;
};

}  // namespace lf::robot
