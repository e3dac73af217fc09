// Adaptive norms: scale, shift and gate of a layer come from a conditioning row (arXiv:2212.09748).
//   modulated   y = norm(x) · (1 + scale) + shift      (norm.h; of layers, or of root mean squares)
//   gated       y = residual + gate · x
// Rows of packed samples share conditioning rows in runs: a sample's, or a frame's that has a time of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/activation.h"

namespace lf::nn {

// Rows [starts[i], starts[i + 1]) use conditioning row of[i]. On the host.
struct Runs {
  std::vector<int64_t> starts = {0}, of;

  size_t count() const { return of.size(); }
  int64_t rows() const { return starts.back(); }
};
// The part [begin, end) of them, counted from begin.
Runs slice(const Runs& runs, int64_t begin, int64_t end);

// Where in a row of the conditioning [G, k · C] a vector begins, in units of C.
struct Modulation {
  at::Tensor rows;  // [G, k · C]
  int64_t shift = 0, scale = 1;
  double eps = 1e-6;
  NormKind kind = NormKind::kLayer;
};

// rows [G, k · C] with the vectors of `table` [1, k, C] added to each.
at::Tensor add_to_rows(const at::Tensor& rows, const Parameter& table);

// modulated(x) Wᵀ + b for each of the maps, keeping x once: x [N, C] -> [N, out of each].
Tensors modulated_linears(const at::Tensor& x, const Modulation& modulation, const Runs& runs,
                          const std::vector<Linear>& linears);

// residual + gate · (x Wᵀ + b), keeping x and the product. gate: its place in rows.
at::Tensor linear_gated(const at::Tensor& x, const Linear& linear, const at::Tensor& rows, int64_t gate,
                        const Runs& runs, const at::Tensor& residual);
// The same of activate(h); with `beside` [N, B] before it on the input axis where that is defined: W [C, B + I].
at::Tensor activate_linear_gated(const at::Tensor& h, Activation activation, const at::Tensor& beside,
                                 const Linear& linear, const at::Tensor& rows, int64_t gate, const Runs& runs,
                                 const at::Tensor& residual);

}  // namespace lf::nn
