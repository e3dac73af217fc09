// Rotary position embedding (arXiv:2104.09864) with positions on several axes. Rotations pair dimension j with j + D/2.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lf::nn {

// Which axis gives the position of each of the D/2 frequencies, and the frequencies.
struct RotarySpec {
  std::vector<int64_t> axis;     // [D/2]
  std::vector<float> frequency;  // [D/2], radians per position; f32 as the reference computes them
  double amplitude = 1;          // cosines and sines are multiplied by it
};

// One axis.
RotarySpec plain_rotary(int64_t head_size, double theta);

// Frequencies for positions beyond those that a model was trained with (YaRN, arXiv:2309.00071): those that turn more
// than beta_fast times within `original_positions` stay, those below beta_slow turns are divided by `factor`, those
// between are mixed.
struct Yarn {
  double factor = 1, beta_fast = 32, beta_slow = 1;
  int64_t original_positions = 0;
  double amplitude = 1;
  bool truncate = true;  // the borders between kept, mixed and divided are whole frequencies
};
RotarySpec yarn_rotary(int64_t head_size, double theta, const Yarn& yarn);

// Text of Qwen2-VL and Qwen2.5-VL: frequency j belongs to the axis whose section of [t, h, w] it falls into.
RotarySpec chunked_rotary(int64_t head_size, double theta, const std::vector<int64_t>& sections);
// Text of Qwen3-VL: T everywhere, but H at j = 1, 4, 7 ... below 3 · sections[1], W at j = 2, 5, 8 ... below 3 ·
// sections[2].
RotarySpec interleaved_rotary(int64_t head_size, double theta, const std::vector<int64_t>& sections);
// Vision towers: the first half of the frequencies by row, the second by column, both over head_size / 2.
RotarySpec axial_rotary(int64_t head_size, double theta);

struct RotaryTable {
  at::Tensor cosine, sine;  // [N, D/2] f32; undefined: nothing is rotated

  bool present() const { return cosine.defined(); }
};

// positions i64 [axes, N].
RotaryTable rotary_table(const RotarySpec& spec, const at::Tensor& positions);

// x [N, heads, D] rotated (inverse: back). In f32 (f64 for f64), returned in x's dtype. Differentiable by autograd.
at::Tensor rotate(const at::Tensor& x, const RotaryTable& table);

// x [N, heads, D] with dimensions [begin, begin + 2 x columns of the table) of each head rotated; the others stay.
// Dimension j of them is paired with j + half (DeepSeek's indexer), or 2j with 2j + 1 (its attention). One node that
// keeps the table only.
enum class RotaryPairs { kHalves, kNeighbours };
at::Tensor rotate_part(const at::Tensor& x, int64_t begin, RotaryPairs pairs, const RotaryTable& table);

}  // namespace lf::nn
