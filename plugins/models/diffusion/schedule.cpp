#include "diffusion/schedule.h"

#include <algorithm>
#include <cmath>

namespace lf::diffusion {
namespace {

constexpr double kTimes = 1000, kBellCentre = 0.5;

}  // namespace

std::vector<NoiseLevel> make_schedule(const ScheduleOptions& options) {
  std::vector<double> sigmas;
  for (int64_t i = 0; i < kLevels; ++i) {
    const double sigma = 1.0 - static_cast<double>(i) / kLevels;
    sigmas.push_back(options.exponential ? std::exp(options.mu) / (std::exp(options.mu) + 1.0 / sigma - 1.0)
                                         : options.shift * sigma / (1.0 + (options.shift - 1.0) * sigma));
  }
  if (options.exponential) {
    const double stretch = (1.0 - sigmas.back()) / (1.0 - options.terminal);
    for (double& sigma : sigmas) sigma = 1.0 - (1.0 - sigma) / stretch;
  }
  std::vector<double> bell;
  for (const double sigma : sigmas) bell.push_back(std::exp(-2.0 * (sigma - kBellCentre) * (sigma - kBellCentre)));
  const double least = *std::min_element(bell.begin(), bell.end());
  double total = 0;
  for (double& weight : bell) total += weight -= least;
  std::vector<NoiseLevel> schedule;
  for (int64_t i = 0; i < kLevels; ++i) {
    const auto at = static_cast<size_t>(i);
    schedule.push_back({static_cast<float>(sigmas[at]), static_cast<float>(kTimes * sigmas[at]),
                        options.bell_weights ? static_cast<float>(bell[at] * kLevels / total) : 1.0f});
  }
  return schedule;
}

LevelRange high_noise(const std::vector<NoiseLevel>& schedule, double boundary) {
  LevelRange range{0, 0};
  while (range.end < kLevels && double{schedule[static_cast<size_t>(range.end)].time} >= boundary * kTimes) ++range.end;
  return range;
}

LevelRange low_noise(const std::vector<NoiseLevel>& schedule, double boundary) {
  return {high_noise(schedule, boundary).end, kLevels};
}

}  // namespace lf::diffusion
