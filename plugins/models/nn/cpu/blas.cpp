#include "nn/cpu/blas.h"

// MKL is linked into libtorch_cpu and its interface exported (LP64). Row-major C = A B is column-major Cᵀ = Bᵀ Aᵀ.
extern "C" {
void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc);
void gemm_bf16bf16f32_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
                       const float* alpha, const uint16_t* a, const int* lda, const uint16_t* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);
}

namespace lf::nn::cpu {
namespace {

template <typename T, typename U>
void column_major(void (*gemm)(const char*, const char*, const int*, const int*, const int*, const float*, const U*,
                               const int*, const U*, const int*, const float*, float*, const int*),
                  const GemmShape& shape, const Factor<T>& a, const Factor<T>& b, float beta, float* c,
                  int64_t c_stride) {
  const int m = static_cast<int>(shape.columns), n = static_cast<int>(shape.rows), k = static_cast<int>(shape.depth);
  const int lda = static_cast<int>(b.stride), ldb = static_cast<int>(a.stride), ldc = static_cast<int>(c_stride);
  const float one = 1.0f;
  gemm(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &m, &n, &k, &one, reinterpret_cast<const U*>(b.data), &lda,
       reinterpret_cast<const U*>(a.data), &ldb, &beta, c, &ldc);
}

}  // namespace

void gemm_f32(const GemmShape& shape, const Factor<float>& a, const Factor<float>& b, float beta, float* c,
              int64_t c_stride) {
  column_major<float, float>(sgemm_, shape, a, b, beta, c, c_stride);
}

void gemm_bf16(const GemmShape& shape, const Factor<c10::BFloat16>& a, const Factor<c10::BFloat16>& b, float beta,
               float* c, int64_t c_stride) {
  column_major<c10::BFloat16, uint16_t>(gemm_bf16bf16f32_, shape, a, b, beta, c, c_stride);
}

}  // namespace lf::nn::cpu
