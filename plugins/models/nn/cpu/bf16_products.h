// Products of bf16 matrices in host memory, summed in f32. Two ways, because processors differ: Zen 4 and those with
// AMX multiply bf16 faster than f32; Intel's with AVX512_BF16 alone take two cycles for an instruction of it (Emerald
// Rapids, one core: 82 GFLOP/s through oneDNN against 150 in f32), and older ones have none.
#pragma once

#include <ATen/core/Tensor.h>

namespace lf::nn::cpu {

enum class Bf16Way {
  kNative,  // BLAS on the factors as they are
  kWidened  // factors widened slice by slice, then an f32 product
};

// By the processor's features alone, so that a machine always gives the same bits.
Bf16Way bf16_way();

// c (f32 [n, m], rows contiguous) = a b, or c += a b. a [n, k], b [k, m], bf16, any strides.
void multiply(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool add, Bf16Way way);

}  // namespace lf::nn::cpu
