// The loops that LibTorch's operators do not fuse, compiled once per instruction set (kernels.cpp). Plain pointers
// only: nothing from a header may be compiled into those files, or the linker could pick its AVX-512 copy for everyone.
#pragma once

#include <cstdint>

namespace lf::nn::cpu {

struct Bf16 {
  uint16_t bits;
};

// Rows [begin, end) of a matrix.
struct Range {
  int64_t begin, end;
};

template <typename T>
struct NormForward {
  const T* x;
  const T* weight;
  const T* bias;  // null: root mean square, no mean taken off
  T* y;
  float* mean;  // [rows], layer only
  float* inverse_deviation;
  int64_t columns;
  float eps;
};

template <typename T>
struct NormBackward {
  const T* dy;
  const T* x;
  const T* weight;
  const float* mean;  // null: root mean square
  const float* inverse_deviation;
  T* dx;  // null: not wanted
  int64_t columns;
};

// Rotated queries and keys, softmax, values: see attention.h of nn for what is computed.
template <typename T>
struct AttentionProblem {
  const T* qkv;  // [N, qkv_stride]: heads, then kv_heads keys, then as many values, each head_size wide
  int64_t qkv_stride;
  int64_t group_stride;  // by group: elements from one key/value head's queries to the next's; 0: by kind
  const float* cosine;   // [N, head_size / 2]; null: nothing is rotated
  const float* sine;
  const float* query_weight;  // [head_size], null: no norms
  const float* key_weight;
  float eps, scale;
  int64_t rows;  // N
  int64_t heads, kv_heads, head_size;
  bool causal;
  T* out;          // [N, heads * head_size]; read by backward
  float* log_sum;  // [heads, N]; read by backward
  // backward
  const T* dout;
  T* dqkv;  // [N, qkv_stride]
};

// One segment and one key/value head with its queries.
struct AttentionTask {
  int64_t begin, end, kv_head;
};

template <typename T>
struct KernelsOf {
  void (*norm_forward)(const NormForward<T>&, Range);
  // Adds to dweight and dbias [columns]; null: not wanted.
  void (*norm_backward)(const NormBackward<T>&, Range, float* dweight, float* dbias);
  // h [rows, 2 width] -> y [rows, width]; backward: dh and the value again.
  void (*gated_silu)(const T* h, T* y, int64_t width, Range);
  void (*gated_silu_backward)(const T* dy, const T* h, T* dh, T* value, int64_t width, Range);
  // Of `Range` elements.
  void (*quick_gelu)(const T* h, T* y, Range);
  void (*quick_gelu_backward)(const T* dy, const T* h, T* dh, T* value, Range);
  // table[ids[i]][c] += rows[i][c] for c in the range, in the order of i; negative ids are skipped.
  void (*add_rows)(float* table, const int64_t* ids, const T* rows, int64_t n, int64_t columns, Range);
  void (*attention_forward)(const AttentionProblem<T>&, const AttentionTask&, float* scratch);
  // norm_gradients [2 head_size]: of the query's and the key's weight, set; null without norms.
  void (*attention_backward)(const AttentionProblem<T>&, const AttentionTask&, float* scratch, float* norm_gradients);
};

struct Kernels {
  KernelsOf<float> f32;
  KernelsOf<Bf16> bf16;
  // logits [rows, columns] -> losses [rows]. scale != 0: logits become (softmax - one hot) * scale * weight of the row
  // (null: 1), in place, or in `rounded` where it is given.
  void (*cross_entropy)(float* logits, const int64_t* targets, const float* weights, int64_t columns, float scale,
                        float* losses, Bf16* rounded, Range);
  // Floats of scratch, 64-byte aligned, for a task of so many rows.
  int64_t (*attention_scratch)(int64_t head_size, int64_t rows, bool backward);
};

namespace x86_64_v2 {
const Kernels& kernels();
}
namespace x86_64_v3 {
const Kernels& kernels();
}
namespace x86_64_v4 {
const Kernels& kernels();
}

// The best that this machine runs.
const Kernels& kernels();

template <typename T>
const KernelsOf<T>& kernels_of();

}  // namespace lf::nn::cpu
