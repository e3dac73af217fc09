// Compiled once per instruction set, with LF_ISA, LF_VECTOR_BYTES, LF_TILE_ROWS and LF_TILE_VECTORS set by CMake.
#include "nn/cpu/kernels.h"

namespace lf::nn::cpu {
namespace {

#include "nn/cpu/vector.inc.h"
//
#include "nn/cpu/gemm.inc.h"
//
#include "nn/cpu/attention.inc.h"
//
#include "nn/cpu/sparse_attention.inc.h"
//
#include "nn/cpu/heads.inc.h"

template <typename T>
void norm_forward(const NormForward<T>& n, Range range) {
  const float inverse_columns = 1.0f / static_cast<float>(n.columns);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = n.x + row * n.columns;
    T* y = n.y + row * n.columns;
    float mean = 0;
    if (n.mean != nullptr) {
      V total{};
      for_vectors(n.columns, [&](int64_t i, auto get, auto) { total += get(x + i); });
      mean = sum(total) * inverse_columns;
      n.mean[row] = mean;
    }
    V squares{};
    for_vectors(n.columns, [&](int64_t i, auto get, auto) {
      const V v = get.keep(get(x + i) - mean);
      squares += v * v;
    });
    const float inverse = 1.0f / __builtin_sqrtf(sum(squares) * inverse_columns + n.eps);
    n.inverse_deviation[row] = inverse;
    for_vectors(n.columns, [&](int64_t i, auto get, auto put) {
      V v = (get(x + i) - mean) * inverse * (get(n.weight + i) + n.offset);
      if (n.bias != nullptr) v += get(n.bias + i);
      put(y + i, v);
    });
  }
}

template <typename T>
void norm_backward(const NormBackward<T>& n, Range range, float* dweight, float* dbias) {
  const float inverse_columns = 1.0f / static_cast<float>(n.columns);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T *x = n.x + row * n.columns, *dy = n.dy + row * n.columns;
    const float inverse = n.inverse_deviation[row], mean = n.mean == nullptr ? 0 : n.mean[row];
    V dot{}, total{};
    for_vectors(n.columns, [&](int64_t i, auto get, auto put) {
      const V g = get(dy + i), x_hat = (get(x + i) - mean) * inverse, gw = g * (get(n.weight + i) + n.offset);
      dot += gw * x_hat;
      total += gw;
      if (dweight != nullptr) put(dweight + i, get(dweight + i) + g * x_hat);
      if (dbias != nullptr) put(dbias + i, get(dbias + i) + g);
    });
    if (n.dx == nullptr) continue;
    const float along = sum(dot) * inverse_columns, shift = n.mean == nullptr ? 0 : sum(total) * inverse_columns;
    T* dx = n.dx + row * n.columns;
    for_vectors(n.columns, [&](int64_t i, auto get, auto put) {
      const V x_hat = (get(x + i) - mean) * inverse, gw = get(dy + i) * (get(n.weight + i) + n.offset);
      put(dx + i, (gw - x_hat * along - shift) * inverse);
    });
  }
}

template <typename T>
void gate_backward(const GateBackward<T>& g, Range range, float* dgate) {
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T *dout = g.dout + row * g.columns, *y = g.y + row * g.columns;
    T* dy = g.dy + row * g.columns;
    for_vectors(g.columns, [&](int64_t i, auto get, auto put) {
      const V gradient = get(dout + i);
      put(dgate + i, get(dgate + i) + gradient * get(y + i));
      put(dy + i, gradient * get(g.gate + i));
    });
  }
}

// tanh(z) = 2 sigmoid(2z) - 1, so that gelu tanh is x sigmoid(2z), z = sqrt(2 / pi) (x + 0.044715 x^3).
constexpr float kGeluTanhSlope = 1.5957691216057308f, kGeluTanhCubic = 0.044715f;

// x sigmoid(angle(x)), and slope(x) = x angle'(x).
struct SiluGate {
  static V angle(V x) { return x; }
  static V slope(V x) { return x; }
};
struct GeluTanhGate {
  static V angle(V x) { return x * (kGeluTanhSlope + kGeluTanhSlope * kGeluTanhCubic * x * x); }
  static V slope(V x) { return x * (kGeluTanhSlope + 3 * kGeluTanhSlope * kGeluTanhCubic * x * x); }
};

template <typename Gate, typename T>
void gated(const T* h, T* y, int64_t width, Range range) {
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T *gate = h + row * 2 * width, *up = gate + width;
    T* to = y + row * width;
    for_vectors(width, [&](int64_t i, auto get, auto put) {
      const V g = get(gate + i);
      put(to + i, g * sigmoid(Gate::angle(g)) * get(up + i));
    });
  }
}

template <typename Gate, typename T>
void gated_backward(const T* dy, const T* h, T* dh, T* value, int64_t width, Range range) {
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T *gate = h + row * 2 * width, *up = gate + width, *gradient = dy + row * width;
    T *dgate = dh + row * 2 * width, *dup = dgate + width, *to = value + row * width;
    for_vectors(width, [&](int64_t i, auto get, auto put) {
      const V g = get(gate + i), u = get(up + i), d = get(gradient + i), s = sigmoid(Gate::angle(g)), open = g * s;
      put(dup + i, d * open);
      put(dgate + i, d * u * (s + s * Gate::slope(g) * (1.0f - s)));
      put(to + i, open * u);
    });
  }
}

// x sigmoid(1.702 x) in the same form.
struct QuickGeluGate {
  static constexpr float kSlope = 1.702f;
  static V angle(V x) { return x * kSlope; }
  static V slope(V x) { return x * kSlope; }
};

template <typename Gate, typename T>
void plain(const PlainRows<T>& p, Range range) {
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* h = p.h + row * p.columns;
    T* value = p.value + row * p.value_stride;
    for_vectors(p.columns, [&](int64_t i, auto get, auto put) {
      const V x = get(h + i);
      put(value + i, x * sigmoid(Gate::angle(x)));
    });
  }
}

template <typename Gate, typename T>
void plain_backward(const PlainRows<T>& p, Range range) {
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T *h = p.h + row * p.columns, *dy = p.dy + row * p.gradient_stride;
    T *dh = p.dh + row * p.columns, *value = p.value + row * p.value_stride;
    for_vectors(p.columns, [&](int64_t i, auto get, auto put) {
      const V x = get(h + i), s = sigmoid(Gate::angle(x));
      put(dh + i, get(dy + i) * s * (1.0f + Gate::slope(x) * (1.0f - s)));
      put(value + i, x * s);
    });
  }
}

template <typename T>
void add_rows(float* table, const int64_t* ids, const T* rows, int64_t n, int64_t columns, Range range) {
  for (int64_t row = 0; row < n; ++row) {
    if (ids[row] < 0) continue;
    float* to = table + ids[row] * columns + range.begin;
    const T* from = rows + row * columns + range.begin;
    for_vectors(range.end - range.begin,
                [&](int64_t i, auto get, auto put) { put(to + i, get(to + i) + get(from + i)); });
  }
}

void cross_entropy(float* logits, const int64_t* targets, const float* weights, int64_t columns, float scale,
                   float* losses, Bf16* rounded, Range range) {
  for (int64_t row = range.begin; row < range.end; ++row) {
    float* l = logits + row * columns;
    const int64_t target = targets[row];
    V best = broadcast(l[0]);
    const int64_t whole = columns / kWidth * kWidth;
    for (int64_t i = 0; i < whole; i += kWidth) best = maximum(best, load(l + i));
    float top = largest(best);
    for (int64_t i = whole; i < columns; ++i) top = l[i] > top ? l[i] : top;
    const float at_target = l[target];
    V sums{};
    for (int64_t i = 0; i < whole; i += kWidth) {
      const V e = exponential(load(l + i) - top);
      sums += e;
      if (scale != 0) store(l + i, e);
    }
    float total = sum(sums);
    if (const int64_t left = columns - whole; left > 0) {
      const V e = exponential(load_part(l + whole, left) - top);
      for (int64_t i = 0; i < left; ++i) total += e[i];
      if (scale != 0) store_part(l + whole, e, left);
    }
    losses[row] = __builtin_logf(total) + top - at_target;
    if (scale == 0) continue;
    const float row_scale = weights == nullptr ? scale : scale * weights[row];
    const float factor = row_scale / total;
    const float target_gradient = l[target] * factor - row_scale;
    if (rounded == nullptr) {
      for_vectors(columns, [&](int64_t i, auto get, auto put) { put(l + i, get(l + i) * factor); });
      l[target] = target_gradient;
    } else {
      Bf16* to = rounded + row * columns;
      for_vectors(columns, [&](int64_t i, auto get, auto put) { put(to + i, get(l + i) * factor); });
      store_part(to + target, broadcast(target_gradient), 1);
    }
  }
}

template <typename T>
constexpr KernelsOf<T> table_of() {
  return {norm_forward<T>,
          norm_backward<T>,
          gate_backward<T>,
          gated<SiluGate, T>,
          gated_backward<SiluGate, T>,
          gated<GeluTanhGate, T>,
          gated_backward<GeluTanhGate, T>,
          plain<QuickGeluGate, T>,
          plain_backward<QuickGeluGate, T>,
          plain<GeluTanhGate, T>,
          plain_backward<GeluTanhGate, T>,
          add_rows<T>,
          heads_forward<T>,
          heads_backward<T>,
          attention_forward<T>,
          attention_backward<T>};
}

constexpr Kernels kTable = {table_of<float>(), table_of<Bf16>(),    cross_entropy,   attention_scratch,
                            sparse_scratch,    sparse_forward,      sparse_backward, index_panel_floats,
                            index_panels,      index_score_scratch, index_scores,    select_top,
                            index_divergence};

}  // namespace

namespace LF_ISA {
const Kernels& kernels() { return kTable; }
}  // namespace LF_ISA

}  // namespace lf::nn::cpu
