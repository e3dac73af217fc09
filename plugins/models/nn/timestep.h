// Sinusoidal embedding of a time (arXiv:1706.03762, cosines first as diffusion transformers have it).
#pragma once

#include <ATen/core/Tensor.h>

namespace lf::nn {

// time f32 [G] -> f32 [G, width]: [cos(s t f_j), sin(s t f_j)], f_j = 10000^(-j / (width / 2)). `scale` is multiplied
// last, where the reference does it: times run to 1000, and f32 angles depend on the order.
at::Tensor timestep_embedding(const at::Tensor& time, int64_t width, double scale = 1);

// time f32 [G] in [0, 1] -> f32 [G, width], width even: [sin(2π t / p_j), cos(2π t / p_j)] for periods p_j from
// `shortest` to `longest`, equally spaced in their logarithms. Computed in f64 (openpi's posemb_sincos).
at::Tensor period_embedding(const at::Tensor& time, int64_t width, double shortest, double longest);

}  // namespace lf::nn
