// The arithmetic of AdamW on one contiguous range. Internal to optimizer.
#pragma once

#include <cstdint>

namespace lf {

struct AdamWScalars {
  float clip;  // factor of the gradients
  float keep;  // 1 - learning rate * weight decay
  float one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;        // learning rate / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float epsilon;
  bool operator==(const AdamWScalars&) const = default;
};

struct AdamWRange {
  float *master, *m, *v;
  const float* gradient;
  uint16_t* compute;  // null: none
  int64_t n;
};

//   g = clip * gradient;  p *= keep;  m += (g - m) * (1 - beta1);  v = beta2 v + (1 - beta2) g g
//   p -= step_size * m / (sqrt(v) / root_correction + epsilon);  compute = bf16(p), to nearest even
// in f32, element by element, without contraction: the same bits on every machine.
void adamw_update(const AdamWRange& range, const AdamWScalars& s);

// p -= step * sign(count);  compute = bf16(p). compute null: none.
void sign_update(float* master, const float* counts, uint16_t* compute, int64_t n, float step);

// Sum of squares in f64, in an order that depends on n alone.
double sum_of_squares(const float* values, int64_t n);

}  // namespace lf
