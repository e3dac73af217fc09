#include "optimizer/weight_average.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"

namespace lf {
namespace {

constexpr int64_t kAveragedBlock = 1 << 16;  // elements: 0.8 MB of traffic

}  // namespace

double average_decay(const EmaSection& settings, uint64_t updates) {
  if (!settings.warmup) return settings.decay;
  const auto n = static_cast<double>(updates);
  return updates == 0 ? 0 : std::min(settings.decay, (1 + n) / (10 + n));
}

WeightAverage::WeightAverage(std::span<const float> master, int threads)
    : master_(master), average_(static_cast<int64_t>(master.size())), threads_(threads) {
  std::copy(master.begin(), master.end(), average_.data());
}

WeightAverage::WeightAverage(std::unique_ptr<AverageMemory> elsewhere) : elsewhere_(std::move(elsewhere)) {}

FloatRange WeightAverage::range(int64_t offset, int64_t elements) const {
  return elsewhere_ ? elsewhere_->range(offset, elements) : host_range(average_.data() + offset, elements);
}

void WeightAverage::update(double decay) {
  if (!(decay >= 0 && decay < 1)) fail(Exit::kBug, "weight average: expected a decay in [0, 1), got {}", decay);
  const auto take = static_cast<float>(1.0 - decay);
  if (elsewhere_) return elsewhere_->update(take);
  const auto size = static_cast<int64_t>(master_.size());
  parallel_pieces(threads_, (size + kAveragedBlock - 1) / kAveragedBlock, [&](int64_t block) {
    const float* values = master_.data();
    float* average = average_.data();
    const int64_t end = std::min(size, (block + 1) * kAveragedBlock);
    for (int64_t i = block * kAveragedBlock; i < end; ++i) average[i] += take * (values[i] - average[i]);
  });
}

}  // namespace lf
