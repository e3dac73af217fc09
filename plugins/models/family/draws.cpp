#include "family/draws.h"

#include <cmath>
#include <numbers>

namespace lf::family {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the finaliser, and the step between its states.
constexpr uint64_t kStep = 0x9E3779B97F4A7C15;
constexpr uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

constexpr double kUnit = 0x1.0p-53;

}  // namespace

uint64_t Draws::bits(uint64_t purpose, uint64_t index) const {
  uint64_t key = mixed(seed_ + kStep);
  for (const uint64_t part : {sample_, epoch_, purpose}) key = mixed(key + (part + 1) * kStep);
  return mixed(key + (index + 1) * kStep);
}

double Draws::uniform(uint64_t purpose) const { return static_cast<double>(bits(purpose, 0) >> 11) * kUnit; }

std::vector<float> Draws::normal(uint64_t purpose, int64_t n) const {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); i += 2) {
    // The first in (0, 1]: its logarithm is finite.
    const double u = static_cast<double>((bits(purpose, i) >> 11) + 1) * kUnit;
    const double v = static_cast<double>(bits(purpose, i + 1) >> 11) * kUnit;
    const double radius = std::sqrt(-2.0 * std::log(u)), angle = 2.0 * std::numbers::pi * v;
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

}  // namespace lf::family
