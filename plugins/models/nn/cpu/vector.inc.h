// Vectors of LF_VECTOR_BYTES by GCC's extension. Included by kernels.cpp only, inside its unnamed namespace.

constexpr int64_t kWidth = LF_VECTOR_BYTES / 4;  // floats in a vector
typedef float V __attribute__((vector_size(LF_VECTOR_BYTES)));
typedef int32_t VI __attribute__((vector_size(LF_VECTOR_BYTES)));
typedef uint32_t VU __attribute__((vector_size(LF_VECTOR_BYTES)));
typedef uint16_t VH __attribute__((vector_size(LF_VECTOR_BYTES / 2)));

// Minus, because x - 0 is x for every x: V{} + x is an addition, since it turns -0 into 0, and was the slowest part of
// every product.
inline V broadcast(float value) { return value - V{}; }

inline V load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, V v) { __builtin_memcpy(p, &v, sizeof v); }

inline V load(const Bf16* p) {
  VH h;
  __builtin_memcpy(&h, p, sizeof h);
  const VU wide = __builtin_convertvector(h, VU) << 16;
  return (V)wide;
}
// To the nearest, ties to even; NaN stays NaN.
inline void store(Bf16* p, V v) {
  const VU bits = (VU)v;
  const VU rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const VI ordered = v == v;
  const VU kept = (rounded & (VU)ordered) | (0x7FC0 & ~(VU)ordered);
  const VH h = __builtin_convertvector(kept, VH);
  __builtin_memcpy(p, &h, sizeof h);
}

// The first n < kWidth elements; the others are 0, or left alone.
template <typename T>
inline V load_part(const T* p, int64_t n) {
  T whole[kWidth] = {};
  for (int64_t i = 0; i < n; ++i) whole[i] = p[i];
  return load(whole);
}
template <typename T>
inline void store_part(T* p, V v, int64_t n) {
  T whole[kWidth];
  store(whole, v);
  for (int64_t i = 0; i < n; ++i) p[i] = whole[i];
}

// How a loop of for_vectors reads and writes: whole vectors, or the last elements. keep() zeroes lanes past the end.
struct WholeLoad {
  template <typename T>
  V operator()(const T* p) const {
    return load(p);
  }
  V keep(V v) const { return v; }
};
struct PartLoad {
  int64_t left;
  template <typename T>
  V operator()(const T* p) const {
    return load_part(p, left);
  }
  V keep(V v) const {
    for (int64_t i = left; i < kWidth; ++i) v[i] = 0;
    return v;
  }
};

// Calls body(offset, load, store) for each vector of n elements, the last one partial.
template <typename Body>
__attribute__((always_inline)) inline void for_vectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) body(i, WholeLoad{}, [](auto* p, V v) { store(p, v); });
  if (const int64_t left = n - i; left > 0) body(i, PartLoad{left}, [left](auto* p, V v) { store_part(p, v, left); });
}

inline float sum(V v) {
  float total = 0;
  for (int64_t i = 0; i < kWidth; ++i) total += v[i];
  return total;
}
inline float largest(V v) {
  float best = v[0];
  for (int64_t i = 1; i < kWidth; ++i) best = v[i] > best ? v[i] : best;
  return best;
}
inline V maximum(V a, V b) { return a > b ? a : b; }

// e^x to 2 units in the last place; 0 below -87.3, where it would be denormal. Range reduction and polynomial as in the
// Cephes library (S. Moshier).
__attribute__((always_inline)) inline V exponential(V x) {
  const V floor_at = broadcast(-87.3f), ceiling_at = broadcast(88.3f);
  const VI vanishes = x < floor_at;
  V clamped = x > ceiling_at ? ceiling_at : x;
  clamped = vanishes ? floor_at : clamped;
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer
  const V n = (clamped * 1.44269504088896341f + kRound) - kRound;
  V r = clamped - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  V p = broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const VI power = (__builtin_convertvector(n, VI) + 127) << 23;
  const V result = p * (V)power;
  return vanishes ? V{} : result;
}

__attribute__((always_inline)) inline V sigmoid(V x) { return 1.0f / (1.0f + exponential(-x)); }
