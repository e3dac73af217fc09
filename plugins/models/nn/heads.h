// Heads on their way into attention and out of it, where rows of several streams (text and image) attend together: each
// stream's rows are normed, rotated and put into the order of attention's rows.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/norm.h"
#include "nn/record.h"

namespace lf::nn {

// Rotations of neighbouring dimensions 2j and 2j + 1 (arXiv:2104.09864 as written): y = x ∘ cosine + swap(x) ∘ sine,
// where swap exchanges neighbours. f32 (f64) [N, D], the sine negative at even places; undefined: nothing is rotated.
struct PairRotary {
  at::Tensor cosine, sine;

  bool present() const { return cosine.defined(); }
};

// How the D / 2 frequencies of a head are shared out to axes: sections[a] dimensions of axis a, each with frequencies
// theta^(-2j / sections[a]). Angles in f64, or in f32 where the reference computes them so: at large positions they
// differ.
struct PairRotarySpec {
  std::vector<int64_t> sections;
  double theta = 10000;
  bool in_f32 = false;
};
// positions i64 [axes, N].
PairRotary pair_rotary(const PairRotarySpec& spec, const at::Tensor& positions);

struct HeadsShape {
  int64_t heads = 1, head_size = 0;
  bool norm_across = false;  // one norm over all heads of a row; else one over each head

  int64_t width() const { return heads * head_size; }
};

// Some heads of one stream. x [n, heads · D], any row stride; weight undefined: no norm.
struct Stream {
  at::Tensor x;             // [n, k · width]: queries, keys, values or what of them there is
  std::vector<Norm> norms;  // k of them: RMS; of the values none
  std::vector<bool> rotated;
  at::Tensor to;  // i64 [n]: its rows among the joint ones; undefined: the same
};

// All streams' rows as joint rows [rows, k · width]; `to` of all streams together is a permutation.
at::Tensor join_heads(const std::vector<Stream>& streams, const HeadsShape& shape, const PairRotary& rotary,
                      int64_t rows);

// Rows of x by streams: result i is x's rows of[i]. Together they are a permutation.
Tensors split_rows(const at::Tensor& x, const Tensors& of);
// The inverse: rows of[i] of the result are parts[i].
at::Tensor join_rows(const Tensors& parts, const Tensors& of);

}  // namespace lf::nn
