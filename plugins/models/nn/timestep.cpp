#include "nn/timestep.h"

#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

namespace lf::nn {

at::Tensor timestep_embedding(const at::Tensor& time, int64_t width, double scale) {
  const int64_t half = width / 2;
  const at::Tensor exponent = -std::log(10000.0) * at::arange(0, half, time.options()) / static_cast<double>(half);
  at::Tensor angle = time.unsqueeze(1) * exponent.exp().unsqueeze(0);
  if (scale != 1) angle = scale * angle;
  at::Tensor embedding = at::cat({angle.cos(), angle.sin()}, 1);
  if (width % 2 == 1) embedding = at::cat({embedding, at::zeros({time.size(0), 1}, time.options())}, 1);
  return embedding;
}

at::Tensor period_embedding(const at::Tensor& time, int64_t width, double shortest, double longest) {
  const auto wide = time.options().dtype(at::kDouble);
  const at::Tensor period = shortest * at::pow(longest / shortest, at::linspace(0.0, 1.0, width / 2, wide));
  const at::Tensor angle = (1.0 / period * 2 * std::numbers::pi).unsqueeze(0) * time.to(at::kDouble).unsqueeze(1);
  return at::cat({angle.sin(), angle.cos()}, 1).to(at::kFloat);
}

}  // namespace lf::nn
