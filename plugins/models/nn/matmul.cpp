#include "nn/matmul.h"

#include <utility>

#include <ATen/ATen.h>

#include "nn/cpu/bf16_products.h"

namespace lf::nn {
namespace {

bool is_cpu_bf16(const at::Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kBFloat16; }

// LibTorch's own bf16 product is right where oneDNN's is fast: it sums in f32 and rounds once.
bool widens(const at::Tensor& t) { return is_cpu_bf16(t) && cpu::bf16_way() == cpu::Bf16Way::kWidened; }

at::Tensor second_factor(const at::Tensor& b, Second second) { return second == Second::kTransposed ? b.t() : b; }

at::Tensor float_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& addend) {
  at::Tensor sum;
  if (addend.defined()) {
    sum = at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
    sum.copy_(addend);
  } else {
    sum = at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
  }
  cpu::multiply(sum, a, b, addend.defined(), cpu::bf16_way());
  return sum;
}

}  // namespace

at::Tensor multiply(const at::Tensor& a, const at::Tensor& b_given, Second second, const at::Tensor& addend) {
  const at::Tensor b = second_factor(b_given, second);
  if (widens(a)) return float_product(a, b, addend).to(a.scalar_type());
  return addend.defined() ? at::addmm(addend.to(a.scalar_type()), a, b) : at::mm(a, b);
}

void multiply_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b_given, Second second) {
  const at::Tensor b = second_factor(b_given, second);
  at::Tensor result = out;
  if (widens(a)) {
    result.copy_(float_product(a, b, {}));
  } else {
    at::mm_out(result, a, b);
  }
}

at::Tensor product_f32(const at::Tensor& a, const at::Tensor& b_given, Second second, at::Tensor out) {
  const at::Tensor b = second_factor(b_given, second);
  const auto type = a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (!out.defined()) out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
  if (is_cpu_bf16(a)) {
    cpu::multiply(out, a, b, false, cpu::bf16_way());
    return out;
  }
  return at::mm_out(out, a.to(type), b.to(type));
}

void add_transposed_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.size(0) == 0) return;
  at::Tensor total = sum;
  if (sum.scalar_type() == a.scalar_type()) {
    total.addmm_(a.t(), b);
  } else if (is_cpu_bf16(a) && sum.scalar_type() == at::kFloat) {
    cpu::multiply(sum, a.t(), b, true, cpu::bf16_way());
  } else {
    total.add_(at::mm(a.t().to(sum.scalar_type()), b.to(sum.scalar_type())));
  }
}

}  // namespace lf::nn
