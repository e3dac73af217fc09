// Matrix products summed in f32 (f64 for f64) whatever the dtype of the factors, and rounded once at most.
#pragma once

#include <ATen/core/Tensor.h>

namespace lf::nn {

enum class Second { kPlain, kTransposed };

// a b, or a bᵀ, in a's dtype: a [n, k], b [k, m] (or [m, k]) -> [n, m]. `addend` [n, m] or [m] is added before
// rounding.
at::Tensor multiply(const at::Tensor& a, const at::Tensor& b, Second second, const at::Tensor& addend = {});
// The same into `out` [n, m], rows contiguous, of a's dtype.
void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Second second);

// The same in f32 (f64). `out`, if given, is a contiguous [n, m] to write into.
at::Tensor product_f32(const at::Tensor& a, const at::Tensor& b, Second second, at::Tensor out = {});

// sum += aᵀ b with a [n, p], b [n, q], sum [p, q]; sum's dtype is a's or f32.
void add_transposed_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace lf::nn
