// Compiled with -O3 -ffp-contract=off -fno-math-errno: vectorised, and the same bits with or without FMA.
#include "optimizer/adamw_kernel.h"

#include <bit>
#include <cmath>

namespace lf {
namespace {

inline uint16_t bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

template <bool kWriteCompute>
inline void update(const AdamWRange& range, const AdamWScalars& s) {
  float* __restrict master = range.master;
  float* __restrict m = range.m;
  float* __restrict v = range.v;
  const float* __restrict gradient = range.gradient;
  uint16_t* __restrict compute = range.compute;
  for (int64_t i = 0; i < range.n; ++i) {
    const float g = gradient[i] * s.clip;
    const float m_new = m[i] + (g - m[i]) * s.one_minus_beta1;
    const float v_new = v[i] * s.beta2 + s.one_minus_beta2 * (g * g);
    const float p = master[i] * s.keep - s.step_size * (m_new / (std::sqrt(v_new) / s.root_correction + s.epsilon));
    m[i] = m_new;
    v[i] = v_new;
    master[i] = p;
    if constexpr (kWriteCompute) compute[i] = bf16(p);
  }
}

}  // namespace

void adamw_update(const AdamWRange& range, const AdamWScalars& s) {
  if (range.compute != nullptr) {
    update<true>(range, s);
  } else {
    update<false>(range, s);
  }
}

void sign_update(float* master, const float* counts, uint16_t* compute, int64_t n, float step) {
  for (int64_t i = 0; i < n; ++i) {
    if (counts[i] != 0) master[i] += counts[i] > 0 ? -step : step;
    if (compute != nullptr) compute[i] = bf16(master[i]);
  }
}

double sum_of_squares(const float* values, int64_t n) {
  constexpr int64_t kLanes = 16;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += static_cast<double>(values[i]) * values[i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace lf
