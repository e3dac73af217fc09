#include "nn/matmul.h"

#include <utility>

#include <ATen/ATen.h>

#include "nn/cpu/blas.h"

namespace lf::nn {
namespace {

// The CPU product below wants rows that are contiguous; column slices of a wider matrix are fine.
at::Tensor with_unit_columns(const at::Tensor& t) { return t.stride(1) == 1 || t.size(1) <= 1 ? t : t.contiguous(); }

bool is_cpu_bf16(const at::Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kBFloat16; }

}  // namespace

void add_transposed_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.size(0) == 0) return;
  if (sum.scalar_type() == a.scalar_type()) {
    sum.addmm_(a.t(), b);
    return;
  }
  if (is_cpu_bf16(a) && sum.scalar_type() == at::kFloat && sum.is_contiguous()) {
    const at::Tensor x = with_unit_columns(a), y = with_unit_columns(b);
    cpu::gemm_bf16({.rows = sum.size(0), .columns = sum.size(1), .depth = x.size(0)},
                   {x.const_data_ptr<at::BFloat16>(), x.stride(0), true},
                   {y.const_data_ptr<at::BFloat16>(), y.stride(0), false}, 1.0f, sum.mutable_data_ptr<float>(),
                   sum.size(1));
    return;
  }
  sum.add_(at::mm(a.t().to(sum.scalar_type()), b.to(sum.scalar_type())));
}

at::Tensor product_f32(const at::Tensor& a, const at::Tensor& b, Second second, at::Tensor out) {
  const bool transposed = second == Second::kTransposed;
  const auto type = a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (!out.defined()) out = at::empty({a.size(0), transposed ? b.size(0) : b.size(1)}, a.options().dtype(type));
  if (out.numel() == 0) return out;
  if (is_cpu_bf16(a)) {
    const at::Tensor x = with_unit_columns(a), y = with_unit_columns(b);
    cpu::gemm_bf16({.rows = out.size(0), .columns = out.size(1), .depth = x.size(1)},
                   {x.const_data_ptr<at::BFloat16>(), x.stride(0), false},
                   {y.const_data_ptr<at::BFloat16>(), y.stride(0), transposed}, 0.0f, out.mutable_data_ptr<float>(),
                   out.size(1));
    return out;
  }
  const at::Tensor x = a.to(type), y = transposed ? b.to(type).t() : b.to(type);
  return at::mm_out(out, x, y);
}

}  // namespace lf::nn
