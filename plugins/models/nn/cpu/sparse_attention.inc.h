// One query of sparse attention at a time, over rows picked by number. Nothing is gathered: products read, and add to,
// the picked rows where they lie. Heads are the lanes of vectors, so that scores of one key for all heads lie together.
// Included by kernels.cpp only, inside its unnamed namespace.

constexpr int64_t kRegisters = LF_VECTOR_BYTES == 64 ? 32 : 16;

// Rows of the result held in registers beside `vectors` columns.
constexpr int rows_beside(int vectors) {
  const int rows = (static_cast<int>(kRegisters) - vectors - 2) / vectors;
  return rows > 14 ? 14 : rows;
}

// c(i)[j] (+)= sum over k of a(i)[k step] b(k)[j], for rows i.. and kVectors columns from j.
template <int kRows, int kVectors, typename A, typename B, typename C>
inline void picked_tile(int64_t depth, int64_t i, int64_t j, A a, int64_t step, B b, C c, bool add) {
  const float* left[kRows];
  float* to[kRows];
  V sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    left[r] = a(i + r);
    to[r] = c(i + r) + j;
    for (int v = 0; v < kVectors; ++v) sums[r][v] = add ? load(to[r] + v * kWidth) : V{};
  }
  for (int64_t k = 0; k < depth; ++k) {
    const float* row = b(k) + j;
    V right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = load(row + v * kWidth);
    for (int r = 0; r < kRows; ++r) {
      const V value = broadcast(left[r][k * step]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] += value * right[v];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) store(to[r] + v * kWidth, sums[r][v]);
}

template <int kVectors, typename A, typename B, typename C>
inline void picked_strip(int64_t rows, int64_t depth, int64_t j, A a, int64_t step, B b, C c, bool add) {
  constexpr int kRows = rows_beside(kVectors);
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) picked_tile<kRows, kVectors>(depth, i, j, a, step, b, c, add);
  for (; i + 4 <= rows; i += 4) picked_tile<4, kVectors>(depth, i, j, a, step, b, c, add);
  for (; i < rows; ++i) picked_tile<1, kVectors>(depth, i, j, a, step, b, c, add);
}

// columns: a multiple of kWidth.
template <typename A, typename B, typename C>
inline void picked_product(int64_t rows, int64_t columns, int64_t depth, A a, int64_t step, B b, C c, bool add) {
  int64_t j = 0;
  for (; j + kPanel <= columns; j += kPanel) picked_strip<kTileVectors>(rows, depth, j, a, step, b, c, add);
  if constexpr (kTileVectors > 2)
    for (; j + 2 * kWidth <= columns; j += 2 * kWidth) picked_strip<2>(rows, depth, j, a, step, b, c, add);
  for (; j < columns; j += kWidth) picked_strip<1>(rows, depth, j, a, step, b, c, add);
}

inline int64_t lanes_of(int64_t heads) { return round_up(heads, kWidth); }

// Heads [heads, stride], `size` of each -> [size, lanes], the lanes past the heads 0.
inline void to_lanes(const float* rows, int64_t heads, int64_t stride, int64_t size, int64_t lanes, float* to) {
  for (int64_t k = 0; k < size; ++k) {
    for (int64_t h = 0; h < heads; ++h) to[k * lanes + h] = rows[h * stride + k];
    for (int64_t h = heads; h < lanes; ++h) to[k * lanes + h] = 0;
  }
}

// Floats of scratch for a query that picks up to `picked` rows.
int64_t sparse_scratch(const SparseShape& s, int64_t picked) {
  const int64_t lanes = lanes_of(s.heads), index_lanes = lanes_of(s.index_heads);
  return (s.key_size + s.latent) * lanes + 2 * picked * lanes + 4 * lanes + s.index_size * index_lanes +
         picked * index_lanes + 2 * picked + 4 * index_lanes + 256;
}

void sparse_forward(const SparseShape& s, const float* keys, const int32_t* picked, int64_t n, const float* query,
                    float* out, float* log_sum, float* target, float* scratch) {
  const int64_t lanes = lanes_of(s.heads);
  float* q = scratch;                      // [key_size, lanes]
  float* shares = q + s.key_size * lanes;  // [n, lanes]
  float* inverse = shares + n * lanes;     // [lanes]
  to_lanes(query, s.heads, s.key_stride, s.key_size, lanes, q);
  const auto key = [=](int64_t i) { return keys + int64_t{picked[i]} * s.key_stride; };
  picked_product(
      n, lanes, s.key_size, key, 1, [=](int64_t k) { return q + k * lanes; },
      [=](int64_t i) { return shares + i * lanes; }, false);
  for (int64_t l = 0; l < lanes; l += kWidth) {
    V top = broadcast(kNoScore);
    for (int64_t i = 0; i < n; ++i) top = maximum(top, load(shares + i * lanes + l));
    V total{};
    for (int64_t i = 0; i < n; ++i) {
      const V e = exponential(load(shares + i * lanes + l) - top);
      store(shares + i * lanes + l, e);
      total += e;
    }
    store(inverse + l, 1.0f / total);
    for (int64_t k = 0; k < kWidth; ++k) {
      if (l + k < s.heads)
        log_sum[l + k] = top[k] + __builtin_logf(total[k]);
      else
        inverse[l + k] = 0;
    }
  }
  picked_product(
      s.heads, round_up(s.latent, kWidth), n, [=](int64_t h) { return shares + h; }, lanes, key,
      [=](int64_t h) { return out + h * s.out_stride; }, false);
  for (int64_t h = 0; h < s.heads; ++h) {
    const float by = inverse[h];
    for (int64_t k = 0; k < round_up(s.latent, kWidth); k += kWidth)
      store(out + h * s.out_stride + k, load(out + h * s.out_stride + k) * by);
  }
  if (target == nullptr) return;
  const float mean = 1.0f / static_cast<float>(s.heads);
  for (int64_t i = 0; i < n; ++i) {
    V sums{};
    for (int64_t l = 0; l < lanes; l += kWidth) sums += load(shares + i * lanes + l) * load(inverse + l);
    target[i] = sum(sums) * mean;
  }
}

void sparse_backward(const SparseShape& s, const float* keys, const int32_t* picked, int64_t n, const float* query,
                     const float* log_sum, const float* dout, float* out, float* dquery, float* dkeys, float* target,
                     float* scratch) {
  const int64_t lanes = lanes_of(s.heads), wide = round_up(s.latent, kWidth);
  float* q = scratch;                    // [key_size, lanes]
  float* g = q + s.key_size * lanes;     // [latent, lanes]
  float* shares = g + s.latent * lanes;  // [n, lanes]
  float* dscores = shares + n * lanes;   // [n, lanes]
  float* delta = dscores + n * lanes;    // [lanes]
  float* log_lanes = delta + lanes;      // [lanes]
  to_lanes(query, s.heads, s.key_stride, s.key_size, lanes, q);
  for (int64_t h = 0; h < lanes; ++h) log_lanes[h] = h < s.heads ? log_sum[h] : -kNoScore;  // no share past the heads
  const auto key = [=](int64_t i) { return keys + int64_t{picked[i]} * s.key_stride; };
  const auto share_row = [=](int64_t i) { return shares + i * lanes; };
  const auto dscore_row = [=](int64_t i) { return dscores + i * lanes; };
  picked_product(
      n, lanes, s.key_size, key, 1, [=](int64_t k) { return q + k * lanes; }, share_row, false);
  for (int64_t l = 0; l < lanes; l += kWidth) {
    const V base = load(log_lanes + l);
    for (int64_t i = 0; i < n; ++i) store(share_row(i) + l, exponential(load(share_row(i) + l) - base));
  }
  if (target != nullptr) {
    const float mean = 1.0f / static_cast<float>(s.heads);
    for (int64_t i = 0; i < n; ++i) {
      V sums{};
      for (int64_t l = 0; l < lanes; l += kWidth) sums += load(share_row(i) + l);
      target[i] = sum(sums) * mean;
    }
  }
  if (dout == nullptr) return;
  to_lanes(dout, s.heads, s.out_stride, s.latent, lanes, g);
  picked_product(
      s.heads, wide, n, [=](int64_t h) { return shares + h; }, lanes, key,
      [=](int64_t h) { return out + h * s.out_stride; }, false);
  for (int64_t h = 0; h < lanes; ++h) {
    delta[h] = 0;
    if (h >= s.heads) continue;
    V dot{};
    const float *left = dout + h * s.out_stride, *right = out + h * s.out_stride;
    for_vectors(s.latent, [&](int64_t k, auto get, auto) { dot += get(left + k) * get(right + k); });
    delta[h] = sum(dot);
  }
  picked_product(
      n, lanes, s.latent, key, 1, [=](int64_t k) { return g + k * lanes; }, dscore_row, false);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t l = 0; l < lanes; l += kWidth)
      store(dscore_row(i) + l, load(share_row(i) + l) * (load(dscore_row(i) + l) - load(delta + l)));
  picked_product(
      s.heads, s.key_stride, n, [=](int64_t h) { return dscores + h; }, lanes, key,
      [=](int64_t h) { return dquery + h * s.key_stride; }, false);
  const auto dkey = [=](int64_t i) { return dkeys + int64_t{picked[i]} * s.key_stride; };
  picked_product(
      n, s.key_stride, s.heads, dscore_row, 1, [=](int64_t h) { return query + h * s.key_stride; }, dkey, true);
  picked_product(
      n, wide, s.heads, share_row, 1, [=](int64_t h) { return dout + h * s.out_stride; }, dkey, true);
}

// ---- the indexer

int64_t index_panel_floats(int64_t size, int64_t rows) { return round_up(rows, kPanel) * size; }

void index_panels(const float* keys, int64_t stride, int64_t size, int64_t rows, float* panels) {
  clear_last_panel(rows, size, panels);
  for (int64_t i = 0; i < rows; ++i) add_to_panels(keys + i * stride, i, size, panels);
}

// products: scratch [queries heads, kPanel], of index_score_scratch floats.
int64_t index_score_scratch(int64_t heads, int64_t queries) { return queries * heads * kPanel; }

void index_scores(const SparseShape& s, const float* panels, int64_t rows, const float* query, const float* weight,
                  int64_t queries, float* scores, int64_t stride, float* products) {
  const int64_t all = queries * s.index_heads;
  for (int64_t begin = 0; begin < rows; begin += kPanel) {
    product(all, kPanel, s.index_size, {query, s.index_stride, 1}, panels + begin * s.index_size, kPanel, products,
            kPanel, false);
    for (int64_t t = 0; t < queries; ++t)
      for (int64_t l = 0; l < kPanel; l += kWidth) {
        V total{};
        const float* from = products + t * s.index_heads * kPanel + l;
        for (int64_t h = 0; h < s.index_heads; ++h)
          total += maximum(load(from + h * kPanel), V{}) * weight[t * s.index_heads + h];
        store(scores + t * stride + begin + l, total);
      }
  }
}

inline uint32_t ordered_bits(float value) {  // ascends as floats do; -0 and 0 are one
  uint32_t bits;
  value += 0.0f;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFu : 0x80000000u);
}

// By three passes over ever fewer candidates, 11, 11 and 10 bits at a time (Knuth 3, 5.2.5). keys: scratch [rows].
int64_t select_top(const float* scores, int64_t rows, int64_t top_k, int32_t* picked, float* kept, uint32_t* keys) {
  if (rows <= top_k) {
    for (int64_t i = 0; i < rows; ++i) {
      picked[i] = static_cast<int32_t>(i);
      kept[i] = scores[i];
    }
    return rows;
  }
  int64_t needed = top_k, candidates = rows;
  uint32_t prefix = 0;
  for (int64_t i = 0; i < rows; ++i) keys[i] = ordered_bits(scores[i]);
  for (int pass = 0; pass < 3; ++pass) {
    const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0, bins = pass == 2 ? 1024 : 2048;
    uint32_t counts[2048] = {};
    for (int64_t i = 0; i < candidates; ++i) ++counts[(keys[i] >> shift) & static_cast<uint32_t>(bins - 1)];
    int bin = bins - 1;
    while (counts[bin] < needed) needed -= counts[bin--];
    prefix |= static_cast<uint32_t>(bin) << shift;
    if (pass == 2) break;
    int64_t left = 0;
    for (int64_t i = 0; i < candidates; ++i) {
      keys[left] = keys[i];
      left += ((keys[i] >> shift) & static_cast<uint32_t>(bins - 1)) == static_cast<uint32_t>(bin);
    }
    candidates = left;
  }
  // `prefix` is the smallest key taken; `needed` rows that have exactly it are.
  const uint32_t bits = prefix ^ ((prefix >> 31) != 0 ? 0x80000000u : 0xFFFFFFFFu);
  float least;
  __builtin_memcpy(&least, &bits, sizeof least);
  int64_t n = 0, equal = needed;
  for (int64_t i = 0; i < rows && n < top_k; ++i) {
    const bool same = scores[i] == least && equal > 0;
    picked[n] = static_cast<int32_t>(i);
    kept[n] = scores[i];
    equal -= same;
    n += same || scores[i] > least;
  }
  return n;
}

float index_divergence(const SparseShape& s, const float* index_keys, const int32_t* picked, int64_t n,
                       const float* scores, const float* target, const float* query, const float* weight,
                       const IndexGradients& to, float* scratch) {
  const int64_t lanes = lanes_of(s.index_heads), size = s.index_size;
  const bool learns = to.query != nullptr;
  float* gradient = scratch;                 // [n]: softmax(scores) - target
  float* made = gradient + round_up(n, 16);  // [n]: scores
  float* q = made + round_up(n, 16);         // [size, lanes]
  float* products = q + size * lanes;        // [n, lanes], then their gradients
  float* weights = products + n * lanes;     // [lanes]
  float* dweights = weights + lanes;         // [lanes]
  const auto key = [=](int64_t i) { return index_keys + int64_t{picked[i]} * s.index_stride; };
  const auto row = [=](int64_t i) { return products + i * lanes; };
  if (learns) {
    to_lanes(query, s.index_heads, s.index_stride, size, lanes, q);
    for (int64_t h = 0; h < lanes; ++h) weights[h] = h < s.index_heads ? weight[h] : 0;
    picked_product(
        n, lanes, size, key, 1, [=](int64_t k) { return q + k * lanes; }, row, false);
  }
  if (scores == nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      V total{};
      for (int64_t l = 0; l < lanes; l += kWidth) total += maximum(load(row(i) + l), V{}) * load(weights + l);
      made[i] = sum(total);
    }
    scores = made;
  }

  V best = broadcast(kNoScore);
  for_vectors(n, [&](int64_t i, auto get, auto) {
    V v = get(scores + i);
    const int64_t left = n - i < kWidth ? n - i : kWidth;
    for (int64_t k = left; k < kWidth; ++k) v[k] = kNoScore;
    best = maximum(best, v);
  });
  const float top = largest(best);
  float total = 0;
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t left = n - i < kWidth ? n - i : kWidth;
    const V e = exponential(load_part(scores + i, left) - top);
    for (int64_t k = 0; k < left; ++k) {
      gradient[i + k] = e[k];
      total += e[k];
    }
  }
  const float log_total = __builtin_logf(total) + top, inverse = 1.0f / total;
  double divergence = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (target[i] > 0) divergence += target[i] * (__builtin_logf(target[i]) - (scores[i] - log_total));
    gradient[i] = gradient[i] * inverse - target[i];
  }
  if (!learns) return static_cast<float>(divergence);

  for (int64_t l = 0; l < lanes; l += kWidth) {
    V sums{};
    const V w = load(weights + l);
    for (int64_t i = 0; i < n; ++i) {
      const V p = load(row(i) + l);
      sums += maximum(p, V{}) * gradient[i];
      store(row(i) + l, p > V{} ? w * gradient[i] : V{});
    }
    store(dweights + l, sums);
  }
  for (int64_t h = 0; h < s.index_heads; ++h) to.weight[h] = dweights[h];
  picked_product(
      s.index_heads, s.index_stride, n, [=](int64_t h) { return products + h; }, lanes, key,
      [=](int64_t h) { return to.query + h * s.index_stride; }, false);
  picked_product(
      n, s.index_stride, s.index_heads, row, 1, [=](int64_t h) { return query + h * s.index_stride; },
      [=](int64_t i) { return to.keys + int64_t{picked[i]} * s.index_stride; }, true);
  return static_cast<float>(divergence);
}
