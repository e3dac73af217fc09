// Root-mean-square and layer normalisation over the last axis.
//   RMS    y = x / sqrt(mean(x²) + eps) · (w + offset) + b              (arXiv:1910.07467)
//   layer  y = (x - mean(x)) / sqrt(var(x) + eps) · (w + offset) + b    (arXiv:1607.06450)
#pragma once

#include "nn/parameter.h"
#include "nn/record.h"

namespace lf::nn {

enum class NormKind { kRms, kLayer };

struct Norm {
  NormKind kind = NormKind::kRms;
  double eps = 1e-6;
  Parameter weight;   // [C]
  Parameter bias;     // [C], or undefined: none
  double offset = 0;  // Gemma and adaptive norms keep w - 1; added in f32, which bf16 values of w + 1 would round off

  bool trained() const { return weight.trained() || bias.trained(); }
};

// What backward needs beside x: [N, 1] in f32 (f64 for f64). `mean` is undefined for RMS.
struct NormStatistics {
  at::Tensor mean, inverse_deviation;
};

// x [N, C] -> [N, C] in x's dtype; sums in f32. Written to `into`, contiguous as x, where that is given. Without a
// graph.
at::Tensor normalize(const at::Tensor& x, const Norm& norm, NormStatistics* statistics, const at::Tensor& into = {});

// Gradient of x (undefined unless wanted), `into` as above; adds the parameters' gradients. Without a graph.
at::Tensor normalize_backward(const at::Tensor& dy, const at::Tensor& x, const NormStatistics& statistics,
                              const Norm& norm, bool wants_input_gradient, const at::Tensor& into = {});

// y = normalize(x), as one node that keeps x.
at::Tensor norm(const at::Tensor& x, const Norm& norm);

}  // namespace lf::nn
