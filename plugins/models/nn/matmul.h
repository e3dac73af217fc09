// Matrix products that LibTorch's own operators do not offer: low-precision factors summed in f32.
#pragma once

#include <ATen/core/Tensor.h>

namespace lf::nn {

// sum += aᵀ b with a [n, p], b [n, q], sum [p, q]; sum's dtype is a's or f32, and the products are added in sum's
// precision without a rounding in between.
void add_transposed_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b);

// a b (or a bᵀ) in f32, whatever the dtype of the factors (f64 stays f64): a [n, k], b [k, m] (or [m, k]) -> [n, m].
// `out`, if given, is a contiguous [n, m] to write into.
enum class Second { kPlain, kTransposed };
at::Tensor product_f32(const at::Tensor& a, const at::Tensor& b, Second second, at::Tensor out = {});

}  // namespace lf::nn
