#include "nn/cpu/bf16_products.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <cpuid.h>

// MKL is linked into libtorch_cpu and its interface exported (LP64, column-major): c = beta c + alpha a b.
extern "C" void gemm_bf16bf16f32_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                                  const float* alpha, const uint16_t* a, const int* lda, const uint16_t* b,
                                  const int* ldb, const float* beta, float* c, const int* ldc);

namespace lf::nn::cpu {
namespace {

constexpr int64_t kSliceFloats = int64_t{1} << 20;  // of widened factors at a time: they stay near the cores

struct Features {
  bool amx_bf16 = false, avx512_bf16 = false, intel = false;
};

Features features() {
  Features found;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return found;
  found.intel = b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) found.amx_bf16 = (d >> 22 & 1) != 0;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) found.avx512_bf16 = (a >> 5 & 1) != 0;
  return found;
}

struct Factor {
  at::Tensor rows;  // with contiguous rows
  bool transposed;
  const uint16_t* data() const { return static_cast<const uint16_t*>(rows.const_data_ptr()); }
  int stride() const { return static_cast<int>(std::max<int64_t>(rows.stride(0), rows.size(1))); }
  const char* letter() const { return transposed ? "T" : "N"; }
};

Factor factor(const at::Tensor& t) {
  const auto row_major = [](const at::Tensor& m) { return m.stride(1) == 1 && m.stride(0) >= m.size(1); };
  if (row_major(t)) return {t, false};
  if (row_major(t.t())) return {t.t(), true};
  return {t.contiguous(), false};
}

// Row-major c = a b is column-major cᵀ = bᵀ aᵀ.
void multiply_native(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add) {
  const Factor left = factor(a), right = factor(b);
  const int m = static_cast<int>(c.size(1)), n = static_cast<int>(c.size(0)), k = static_cast<int>(a.size(1));
  const int left_stride = left.stride(), right_stride = right.stride(),
            stride = std::max<int>(static_cast<int>(c.stride(0)), m);
  const float one = 1, beta = add ? 1 : 0;
  gemm_bf16bf16f32_(right.letter(), left.letter(), &m, &n, &k, &one, right.data(), &right_stride, left.data(),
                    &left_stride, &beta, c.mutable_data_ptr<float>(), &stride);
}

void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add) {
  at::Tensor sum = c;
  at::addmm_out(sum, sum, a.to(at::kFloat), b.to(at::kFloat), add ? 1 : 0);
}

// Slices the longest of the three axes, so that what is widened at a time is small.
void multiply_widened(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add) {
  const int64_t n = a.size(0), k = a.size(1), m = b.size(1);
  const int64_t longest = std::max({n, k, m});
  const auto slices = [&](int64_t floats_per_step, auto&& body) {
    const int64_t step = std::max<int64_t>(64, kSliceFloats / std::max<int64_t>(floats_per_step, 1) / 64 * 64);
    for (int64_t begin = 0; begin < longest; begin += step) body(begin, std::min(step, longest - begin));
  };
  if (longest == k) {
    slices(n + m, [&](int64_t begin, int64_t size) {
      add_product(c, a.narrow(1, begin, size), b.narrow(0, begin, size), add || begin > 0);
    });
  } else if (longest == m) {
    const at::Tensor wide = a.to(at::kFloat);
    slices(k, [&](int64_t begin, int64_t size) {
      add_product(c.narrow(1, begin, size), wide, b.narrow(1, begin, size), add);
    });
  } else {
    const at::Tensor wide = b.to(at::kFloat);
    slices(k, [&](int64_t begin, int64_t size) {
      add_product(c.narrow(0, begin, size), a.narrow(0, begin, size), wide, add);
    });
  }
}

}  // namespace

Bf16Way bf16_way() {
  static const Bf16Way way = [] {
    const Features f = features();
    return f.amx_bf16 || (f.avx512_bf16 && !f.intel) ? Bf16Way::kNative : Bf16Way::kWidened;
  }();
  return way;
}

void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add, Bf16Way way) {
  if (c.numel() == 0) return;
  if (a.size(1) == 0) {
    if (!add) at::Tensor(c).zero_();
    return;
  }
  if (way == Bf16Way::kNative) {
    multiply_native(c, a, b, add);
  } else {
    multiply_widened(c, a, b, add);
  }
}

}  // namespace lf::nn::cpu
