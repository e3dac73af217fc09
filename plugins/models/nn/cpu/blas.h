// The BLAS inside LibTorch, for the products that its operators do not offer. Row-major.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>

namespace lf::nn::cpu {

struct GemmShape {
  int64_t rows, columns, depth;
};

// A factor: `stride` elements from row to row as stored; transposed: stored the other way round.
template <typename T>
struct Factor {
  const T* data;
  int64_t stride;
  bool transposed;
};

// c = beta c + a b, in f32.
void gemm_f32(const GemmShape& shape, const Factor<float>& a, const Factor<float>& b, float beta, float* c,
              int64_t c_stride);
void gemm_bf16(const GemmShape& shape, const Factor<c10::BFloat16>& a, const Factor<c10::BFloat16>& b, float beta,
               float* c, int64_t c_stride);

}  // namespace lf::nn::cpu
