#include "nn/rotary.h"

#include <cmath>

#include <ATen/ATen.h>

namespace lf::nn {
namespace {

// 1 / theta^(2j / d), j < d/2, rounded as f32 arithmetic does it in the reference.
std::vector<float> frequencies(int64_t d, double theta) {
  const at::Tensor exponent = at::arange(0, d, 2, at::kFloat) / static_cast<double>(d);
  const at::Tensor result = (1.0 / at::pow(theta, exponent)).contiguous();
  return {result.const_data_ptr<float>(), result.const_data_ptr<float>() + result.numel()};
}

}  // namespace

RotarySpec plain_rotary(int64_t head_size, double theta) {
  return {std::vector<int64_t>(static_cast<size_t>(head_size / 2), 0), frequencies(head_size, theta)};
}

RotarySpec chunked_rotary(int64_t head_size, double theta, const std::vector<int64_t>& sections) {
  RotarySpec spec{{}, frequencies(head_size, theta)};
  for (size_t s = 0; s < sections.size(); ++s)
    spec.axis.insert(spec.axis.end(), sections[s], static_cast<int64_t>(s % 3));
  TORCH_CHECK(spec.axis.size() == spec.frequency.size(), "rotary sections must add up to half the head size");
  return spec;
}

RotarySpec interleaved_rotary(int64_t head_size, double theta, const std::vector<int64_t>& sections) {
  RotarySpec spec{std::vector<int64_t>(static_cast<size_t>(head_size / 2), 0), frequencies(head_size, theta)};
  for (const int64_t axis : {1, 2})
    for (int64_t j = axis; j < std::min<int64_t>(3 * sections[static_cast<size_t>(axis)], head_size / 2); j += 3)
      spec.axis[static_cast<size_t>(j)] = axis;
  return spec;
}

RotarySpec axial_rotary(int64_t head_size, double theta) {
  const std::vector<float> half = frequencies(head_size / 2, theta);
  RotarySpec spec;
  for (const int64_t axis : {0, 1}) {
    spec.axis.insert(spec.axis.end(), half.size(), axis);
    spec.frequency.insert(spec.frequency.end(), half.begin(), half.end());
  }
  TORCH_CHECK(static_cast<int64_t>(spec.axis.size()) == head_size / 2, "a vision head's size must be a multiple of 4");
  return spec;
}

RotaryTable rotary_table(const RotarySpec& spec, const at::Tensor& positions) {
  const at::Tensor axis = at::tensor(spec.axis, at::kLong).to(positions.device());
  const at::Tensor frequency = at::tensor(spec.frequency, at::kFloat).to(positions.device());
  const at::Tensor angle = positions.index_select(0, axis).t().to(at::kFloat) * frequency;
  return {angle.cos().contiguous(), angle.sin().contiguous()};
}

at::Tensor rotate(const at::Tensor& x, const RotaryTable& table) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto halves = x.to(type).chunk(2, -1);
  const at::Tensor c = table.cosine.unsqueeze(1), s = table.sine.unsqueeze(1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).to(x.scalar_type());
}

}  // namespace lf::nn
