#include "nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/ATen.h>

#include "nn/record.h"

namespace lf::nn {
namespace {

// 1 / theta^(2j / d), j < d/2, rounded as f32 arithmetic does it in the reference.
std::vector<float> frequencies(int64_t d, double theta) {
  const at::Tensor exponent = at::arange(0, d, 2, at::kFloat) / static_cast<double>(d);
  const at::Tensor result = (1.0 / at::pow(theta, exponent)).contiguous();
  return {result.const_data_ptr<float>(), result.const_data_ptr<float>() + result.numel()};
}

// The frequency, as a real index, that turns `turns` times within the positions.
double frequency_index(double turns, int64_t d, double theta, int64_t positions) {
  const double ratio = static_cast<double>(positions) / (turns * 2 * std::numbers::pi);
  return static_cast<double>(d) * std::log(ratio) / (2 * std::log(theta));
}

// The rotated part, in place. inverse: turned back, which is the gradient.
void rotate_in_place(const at::Tensor& part, RotaryPairs pairs, const RotaryTable& table, bool inverse) {
  const int64_t half = part.size(-1) / 2;
  const bool halves = pairs == RotaryPairs::kHalves;
  at::Tensor first = halves ? part.narrow(-1, 0, half) : part.slice(-1, 0, 2 * half, 2);
  at::Tensor second = halves ? part.narrow(-1, half, half) : part.slice(-1, 1, 2 * half, 2);
  const auto type = part.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor a = first.to(type), b = second.to(type);
  const at::Tensor c = table.cosine.unsqueeze(1), s = inverse ? table.sine.unsqueeze(1).neg() : table.sine.unsqueeze(1);
  const at::Tensor new_first = a * c - b * s, new_second = b * c + a * s;
  first.copy_(new_first);
  second.copy_(new_second);
}

}  // namespace

RotarySpec plain_rotary(int64_t head_size, double theta) {
  return {std::vector<int64_t>(static_cast<size_t>(head_size / 2), 0), frequencies(head_size, theta)};
}

RotarySpec yarn_rotary(int64_t head_size, double theta, const Yarn& yarn) {
  RotarySpec spec = plain_rotary(head_size, theta);
  spec.amplitude = yarn.amplitude;
  double low = frequency_index(yarn.beta_fast, head_size, theta, yarn.original_positions);
  double high = frequency_index(yarn.beta_slow, head_size, theta, yarn.original_positions);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_size - 1));
  if (low == high) high += 0.001;  // as the reference avoids the division by zero
  for (size_t j = 0; j < spec.frequency.size(); ++j) {
    const float ramp = static_cast<float>((static_cast<double>(j) - low) / (high - low));
    const float kept = 1 - std::clamp(ramp, 0.0f, 1.0f);
    const float divided = spec.frequency[j] / static_cast<float>(yarn.factor);
    spec.frequency[j] = divided * (1 - kept) + spec.frequency[j] * kept;
  }
  return spec;
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
  RotaryTable table{angle.cos().contiguous(), angle.sin().contiguous()};
  if (spec.amplitude != 1) {
    table.cosine.mul_(spec.amplitude);
    table.sine.mul_(spec.amplitude);
  }
  return table;
}

at::Tensor rotate(const at::Tensor& x, const RotaryTable& table) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto halves = x.to(type).chunk(2, -1);
  const at::Tensor c = table.cosine.unsqueeze(1), s = table.sine.unsqueeze(1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).to(x.scalar_type());
}

at::Tensor rotate_part(const at::Tensor& x, int64_t begin, RotaryPairs pairs, const RotaryTable& table) {
  const int64_t width = 2 * table.cosine.size(1);
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = x.clone(at::MemoryFormat::Contiguous);
    rotate_in_place(y.narrow(-1, begin, width), pairs, table, false);
  }
  return record(y, {.inputs = {x},
                    .saved = {table.cosine, table.sine},
                    .backward = [begin, width, pairs](const Tensors& dy, const Tensors& saved) -> Tensors {
                      const at::Tensor dx = dy[0].clone(at::MemoryFormat::Contiguous);
                      rotate_in_place(dx.narrow(-1, begin, width), pairs, {saved[0], saved[1]}, true);
                      return {dx};
                    }});
}

}  // namespace lf::nn
