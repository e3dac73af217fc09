// Linear maps, alone and fused with what stands before or after them.
#pragma once

#include "nn/adapter.h"
#include "nn/norm.h"
#include "nn/parameter.h"
#include "nn/record.h"

namespace lf::nn {

struct Linear {
  Parameter weight;  // [out, ...]: trailing axes are one input axis (a patch kernel is [C, 3, t, p, p])
  Parameter bias;    // [out], or undefined

  bool adapted() const { return weight.adapters != nullptr; }
  // Whether gradients are to be made of x: of the weight or its adapters.
  bool keeps_input() const { return weight.trained() || (adapted() && weight.adapters->trained()); }
  bool trained() const { return keeps_input() || bias.trained(); }
  at::Tensor matrix() const { return weight.value.flatten(1); }
};

// y = x Wᵀ + b, with what adapters add: x [N, in] -> [N, out]. Without a graph. `addend` [N, out], if given, is added.
at::Tensor apply(const Linear& linear, const at::Tensor& x, const at::Tensor& addend = {});
// Adds the parameters' gradients for y = x Wᵀ + b.
void add_gradients(const Linear& linear, const at::Tensor& dy, const at::Tensor& x);
// dy W, with what flows through adapters: [N, out] -> [N, in]. `addend` [N, in], if given, is added.
at::Tensor input_gradient(const Linear& linear, const at::Tensor& dy, const at::Tensor& addend = {});

// y = x Wᵀ + b, keeping x.
at::Tensor linear(const at::Tensor& x, const Linear& linear);
// y = residual + x Wᵀ + b, keeping x.
at::Tensor linear_add(const at::Tensor& x, const Linear& linear, const at::Tensor& residual);
// y = x Wᵀ in f32 (f64) whatever x's dtype, keeping x: router and indexer weights, where rounding would choose.
at::Tensor wide_linear(const at::Tensor& x, const Parameter& weight);
// y = norm(x) Wᵀ + b, keeping x: norm(x) is rebuilt in backward. fold > 1: each `fold` rows of norm(x) are one row of
// the product (patch mergers): x [N, C] -> [N / fold, out] with W [out, fold * C].
at::Tensor norm_linear(const at::Tensor& x, const Norm& norm, const Linear& linear, int64_t fold = 1);

}  // namespace lf::nn
