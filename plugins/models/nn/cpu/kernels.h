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
  const T* bias;  // null: none
  T* y;
  float* mean;  // [rows]; null: root mean square, no mean taken off
  float* inverse_deviation;
  int64_t columns;
  float eps, offset;  // offset: added to the weight
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
  float offset;
};

// out = residual + gate · y, of which dy = dout · gate and dgate is the sum of dout · y.
template <typename T>
struct GateBackward {
  const T* dout;  // [rows, columns], as y and dy
  const T* y;
  const T* gate;  // [columns]
  T* dy;
  int64_t columns;
};

// An activation of one argument: value = f(h), dh = dy f'(h).
template <typename T>
struct PlainRows {
  const T* h;   // [rows, columns]
  const T* dy;  // backward, gradient_stride apart
  T* dh;        // backward, as h
  T* value;     // value_stride apart
  int64_t columns, gradient_stride, value_stride;
};

// Cosines and sines of rows, [., head_size / 2]; null: nothing is rotated.
struct RotaryRows {
  const float* cosine;
  const float* sine;
};

// Rotated queries and keys, softmax, values: see attention.h of nn for what is computed. Rows of queries, keys and
// values may be parts of wider rows.
template <typename T>
struct AttentionProblem {
  const T* query;  // [N, heads, head_size], query_stride apart
  const T* key;    // [M, kv_heads, head_size]
  const T* value;  // [M, kv_heads, value_size]
  int64_t query_stride, key_stride, value_stride;
  int64_t group_stride;  // by group: elements from one key/value head's queries to the next's; 0: by kind
  RotaryRows query_rotary, key_rotary;
  const float* query_weight;  // [head_size], null: no norms
  const float* key_weight;
  float eps, scale;
  int64_t rows;  // N
  int64_t heads, kv_heads, head_size, value_size;
  bool causal;
  T* out;          // [N, heads * value_size]; read by backward
  float* log_sum;  // [heads, N]; read by backward
  // backward
  const T* dout;
  T* dquery;  // as query, key and value lie
  T* dkey;
  T* dvalue;
};

// One segment and one key/value head with its queries: rows of queries, and rows of keys and values. Causal: the same.
struct AttentionTask {
  Range queries, keys;
  int64_t kv_head;
};

// Sparse attention over the latents of one segment: see sparse_attention.h of nn. All strides are multiples of 16
// floats, and what lies between a size and its stride is 0 where it is read.
struct SparseShape {
  int64_t heads, latent, key_size;  // key_size: latent and rotated part
  int64_t key_stride, out_stride;   // between keys, and heads of a query; between heads of a result
  int64_t index_heads, index_size, index_stride;
};

// Where index_divergence puts the gradients of one query's divergence; null `query`: not wanted.
struct IndexGradients {
  float* query;   // [index_heads, index_stride], set
  float* weight;  // [index_heads], set
  float* keys;    // [rows of the segment, index_stride], added to
};

// Heads of rows, normed and rotated on their way to other rows: see heads.h of nn.
template <typename T>
struct HeadsProblem {
  const T* x;  // [rows, x_stride]: heads * head_size columns
  int64_t x_stride;
  const int64_t* to;    // [rows]: row of y, cosine and sine; null: the same
  const float* weight;  // [heads * head_size]; null: no norm
  const float* cosine;  // [., head_size]; null: not rotated
  const float* sine;
  int64_t heads, head_size;
  int64_t norm_heads;  // heads that share one norm: 1, or all
  float eps;
  T* y;  // [., y_stride]; backward: null
  int64_t y_stride;
  const T* dy;  // backward, as y
  T* dx;        // as x
};

template <typename T>
struct KernelsOf {
  void (*norm_forward)(const NormForward<T>&, Range);
  // Adds to dweight and dbias [columns]; null: not wanted.
  void (*norm_backward)(const NormBackward<T>&, Range, float* dweight, float* dbias);
  // Adds to dgate [columns].
  void (*gate_backward)(const GateBackward<T>&, Range, float* dgate);
  // h [rows, 2 width] -> y [rows, width]; backward: dh and the value again.
  void (*gated_silu)(const T* h, T* y, int64_t width, Range);
  void (*gated_silu_backward)(const T* dy, const T* h, T* dh, T* value, int64_t width, Range);
  void (*gated_gelu_tanh)(const T* h, T* y, int64_t width, Range);
  void (*gated_gelu_tanh_backward)(const T* dy, const T* h, T* dh, T* value, int64_t width, Range);
  void (*quick_gelu)(const PlainRows<T>&, Range);
  void (*quick_gelu_backward)(const PlainRows<T>&, Range);
  void (*gelu_tanh)(const PlainRows<T>&, Range);
  void (*gelu_tanh_backward)(const PlainRows<T>&, Range);
  // table[ids[i]][c] += rows[i][c] for c in the range, in the order of i; negative ids are skipped.
  void (*add_rows)(float* table, const int64_t* ids, const T* rows, int64_t n, int64_t columns, Range);
  void (*heads_forward)(const HeadsProblem<T>&, Range);
  // Adds to dweight [heads * head_size]; null: not wanted.
  void (*heads_backward)(const HeadsProblem<T>&, Range, float* dweight);
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
  int64_t (*attention_scratch)(int64_t head_size, int64_t value_size, int64_t rows, bool backward);

  // Floats of scratch of the three functions of a query, for up to `picked` rows.
  int64_t (*sparse_scratch)(const SparseShape&, int64_t picked);
  // keys [rows, key_stride]; picked [n], rows of it; query [heads, key_stride], scaled -> out [heads, out_stride]
  // (latents), log_sum [heads], target [n]: mean of the heads' shares; null: not wanted.
  void (*sparse_forward)(const SparseShape&, const float* keys, const int32_t* picked, int64_t n, const float* query,
                         float* out, float* log_sum, float* target, float* scratch);
  // dout [heads, out_stride] -> out again, dquery [heads, key_stride], both set; dkeys [rows, key_stride], added to;
  // null dout: none of them. target [n] as in forward.
  void (*sparse_backward)(const SparseShape&, const float* keys, const int32_t* picked, int64_t n, const float* query,
                          const float* log_sum, const float* dout, float* out, float* dquery, float* dkeys,
                          float* target, float* scratch);
  // Index keys [rows, stride] of a segment -> panels, of index_panel_floats.
  int64_t (*index_panel_floats)(int64_t size, int64_t rows);
  void (*index_panels)(const float* keys, int64_t stride, int64_t size, int64_t rows, float* panels);
  // Scores of `queries` queries for the first `rows` keys: query [queries, index_heads, index_stride], weight
  // [queries, index_heads] -> scores, `stride` floats between queries, of which panel by panel are written.
  int64_t (*index_score_scratch)(int64_t heads, int64_t queries);
  void (*index_scores)(const SparseShape&, const float* panels, int64_t rows, const float* query, const float* weight,
                       int64_t queries, float* scores, int64_t stride, float* scratch);
  // The top_k largest of scores [rows], of equal ones the earlier, ascending by row: numbers in `picked`, scores in
  // `kept`; returns how many. keys: scratch [rows].
  int64_t (*select_top)(const float* scores, int64_t rows, int64_t top_k, int32_t* picked, float* kept, uint32_t* keys);
  // KL(target || softmax(scores)) over n picked rows, and its gradients. scores [n]; null: made again, which takes
  // gradients that are wanted.
  float (*index_divergence)(const SparseShape&, const float* index_keys, const int32_t* picked, int64_t n,
                            const float* scores, const float* target, const float* query, const float* weight,
                            const IndexGradients& to, float* scratch);
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
