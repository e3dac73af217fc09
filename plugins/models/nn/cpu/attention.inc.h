// Attention of one segment and one key/value head, tiled so that scores never leave the cache (arXiv:2205.14135), in
// f32 whatever the rows' type. Included by kernels.cpp only, inside its unnamed namespace.

constexpr int64_t kQueryTile = 48;  // queries at a time
constexpr int64_t kKeyBlock = 256;  // keys at a time: a multiple of every kPanel
constexpr float kNoScore = -1e30f;

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Buffers of a task, cut from the scratch.
struct Buffers {
  int64_t width, value_width;  // head and value size, padded to whole vectors
  float* key_panels;           // keys, transposed: panels of [head_size, kPanel]
  float* value_panels;         // backward
  float* keys;                 // [rows, width], backward
  float* values;               // [rows, value_width], forward
  float* dkeys;                // [rows, width], backward
  float* dvalues;              // [rows, value_width]
  float* queries;              // [tile, width], scaled
  float* outs;                 // [tile, value_width]: result, or its gradient
  float* dqueries;             // [tile, width], backward
  float* scores;               // [tile, kKeyBlock]
  float* dscores;              // backward
  float* row;                  // of the wider of the two
};

inline int64_t lay_out(Buffers& b, int64_t head_size, int64_t value_size, int64_t rows, bool backward, float* scratch) {
  b = {};
  b.width = round_up(head_size, kWidth);
  b.value_width = round_up(value_size, kWidth);
  int64_t used = 0;
  const auto take = [&](int64_t floats) {
    float* at = scratch == nullptr ? nullptr : scratch + used;
    used += round_up(floats, 16);
    return at;
  };
  const int64_t panel_rows = round_up(rows, kPanel), wider = b.width > b.value_width ? b.width : b.value_width;
  b.key_panels = take(panel_rows * head_size);
  if (backward) {
    b.value_panels = take(panel_rows * value_size);
    b.keys = take(rows * b.width);
    b.dkeys = take(rows * b.width);
    b.dvalues = take(rows * b.value_width);
    b.dqueries = take(kQueryTile * b.width);
    b.dscores = take(kQueryTile * kKeyBlock);
  } else {
    b.values = take(rows * b.value_width);
  }
  b.queries = take(kQueryTile * b.width);
  b.outs = take(kQueryTile * b.value_width);
  b.scores = take(kQueryTile * kKeyBlock);
  b.row = take(2 * wider);
  return used;
}

template <typename T>
inline void widen(const T* from, int64_t n, int64_t padded, float* to) {
  for (int64_t i = n; i < padded; ++i) to[i] = 0;
  for_vectors(n, [&](int64_t i, auto get, auto put) { put(to + i, get(from + i)); });
}

// Neighbouring rows of a head lie a whole row apart, where no hardware fetches ahead. Asks for the row that is read, or
// written, some rows later: in f32 with rows of 1,152 floats this took an eighth off attention, forward and backward
// (Xeon, AVX-512).
constexpr int64_t kRowsAhead = 8;
template <int kWrites, typename T>
inline void ask_ahead(const T* row, int64_t stride, int64_t n) {
  const char* ahead = reinterpret_cast<const char*>(row + kRowsAhead * stride);
  for (int64_t at = 0; at < n * static_cast<int64_t>(sizeof(T)); at += 64) __builtin_prefetch(ahead + at, kWrites);
}
template <typename T>
inline void read_ahead(const T* row, int64_t stride, int64_t n) {
  ask_ahead<0>(row, stride, n);
}
template <typename T>
inline void write_ahead(const T* row, int64_t stride, int64_t n) {
  ask_ahead<1>(row, stride, n);
}

// Where a head's elements begin in a row, counted from the first of its kind.
template <typename T>
inline int64_t query_at(const AttentionProblem<T>& p, int64_t head) {
  const int64_t group = p.heads / p.kv_heads;
  return p.group_stride == 0 ? head * p.head_size : head / group * p.group_stride + head % group * p.head_size;
}
template <typename T>
inline int64_t key_at(const AttentionProblem<T>& p, int64_t kv_head) {
  return kv_head * (p.group_stride == 0 ? p.head_size : p.group_stride);
}
template <typename T>
inline int64_t value_at(const AttentionProblem<T>& p, int64_t kv_head) {
  return kv_head * (p.group_stride == 0 ? p.value_size : p.group_stride);
}

// 1 / sqrt(mean of squares + eps)
inline float inverse_rms(const float* x, int64_t n, float eps) {
  V squares{};
  for_vectors(n, [&](int64_t i, auto get, auto) {
    const V v = get(x + i);
    squares += v * v;
  });
  return 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps);
}

// One head of one row: widened, normed, rotated, scaled. [width], padding 0.
template <typename T>
inline void prepare(const AttentionProblem<T>& p, const T* from, const RotaryRows& rotary, int64_t row,
                    const float* weight, float scale, int64_t width, float* to) {
  const int64_t d = p.head_size, half = d / 2;
  widen(from, d, width, to);
  if (weight != nullptr) {
    const float inverse = inverse_rms(to, d, p.eps);
    for_vectors(d, [&](int64_t i, auto get, auto put) { put(to + i, get(to + i) * inverse * get(weight + i)); });
  }
  if (rotary.cosine == nullptr) {
    for_vectors(d, [&](int64_t i, auto get, auto put) { put(to + i, get(to + i) * scale); });
    return;
  }
  const float *c = rotary.cosine + row * half, *s = rotary.sine + row * half;
  for_vectors(half, [&](int64_t i, auto get, auto put) {
    const V a = get(to + i), b = get(to + half + i), cosine = get(c + i), sine = get(s + i);
    put(to + i, (a * cosine - b * sine) * scale);
    put(to + half + i, (b * cosine + a * sine) * scale);
  });
}

// The gradient of what prepare read, from the gradient of what it made (times scale); adds the weight's gradient.
template <typename T>
inline void unprepare(const AttentionProblem<T>& p, const T* from, const RotaryRows& rotary, int64_t row,
                      const float* weight, float scale, float* gradient, float* raw, float* dweight, T* to) {
  const int64_t d = p.head_size, half = d / 2;
  if (rotary.cosine == nullptr) {
    for_vectors(d, [&](int64_t i, auto get, auto put) { put(gradient + i, get(gradient + i) * scale); });
  } else {
    const float *c = rotary.cosine + row * half, *s = rotary.sine + row * half;
    for_vectors(half, [&](int64_t i, auto get, auto put) {
      const V a = get(gradient + i), b = get(gradient + half + i), cosine = get(c + i), sine = get(s + i);
      put(gradient + i, (a * cosine + b * sine) * scale);
      put(gradient + half + i, (b * cosine - a * sine) * scale);
    });
  }
  if (weight != nullptr) {
    widen(from, d, d, raw);
    const float inverse = inverse_rms(raw, d, p.eps);
    V dot{};
    for_vectors(d, [&](int64_t i, auto get, auto put) {
      const V g = get(gradient + i), x_hat = get(raw + i) * inverse;
      put(dweight + i, get(dweight + i) + g * x_hat);
      dot += g * get(weight + i) * x_hat;
    });
    const float mean = sum(dot) / static_cast<float>(d);
    for_vectors(d, [&](int64_t i, auto get, auto put) {
      const V x_hat = get(raw + i) * inverse;
      put(gradient + i, (get(gradient + i) * get(weight + i) - x_hat * mean) * inverse);
    });
  }
  for_vectors(d, [&](int64_t i, auto get, auto put) { put(to + i, get(gradient + i)); });
}

// rows [n, width] -> panels of [head_size, kPanel], columns past n zero.
inline void add_to_panels(const float* row, int64_t number, int64_t head_size, float* panels) {
  float* panel = panels + number / kPanel * kPanel * head_size + number % kPanel;
  for (int64_t d = 0; d < head_size; ++d) panel[d * kPanel] = row[d];
}
inline void clear_last_panel(int64_t rows, int64_t head_size, float* panels) {
  if (rows % kPanel == 0) return;
  float* panel = panels + rows / kPanel * kPanel * head_size;
  for (int64_t i = 0; i < kPanel * head_size; ++i) panel[i] = 0;
}

// scores [tile, kKeyBlock] = left [tile, width] times the panels from key `begin` on; a multiple of kPanel keys.
inline void against_panels(int64_t tile_rows, const float* left, int64_t width, const float* panels, int64_t head_size,
                           int64_t begin, int64_t keys, float* scores) {
  for (int64_t j = 0; j < keys; j += kPanel)
    product(tile_rows, kPanel, head_size, {left, width, 1}, panels + (begin + j) * head_size, kPanel, scores + j,
            kKeyBlock, false);
}

// How many of the keys [begin, begin + keys) query i sees.
inline int64_t seen(bool causal, int64_t i, int64_t begin, int64_t keys) {
  if (!causal) return keys;
  const int64_t n = i + 1 - begin;
  return n < 0 ? 0 : n < keys ? n : keys;
}

template <typename T>
void attention_forward(const AttentionProblem<T>& p, const AttentionTask& task, float* scratch) {
  const int64_t rows = task.keys.end - task.keys.begin, queries = task.queries.end - task.queries.begin;
  const int64_t d = p.head_size, dv = p.value_size, group = p.heads / p.kv_heads;
  Buffers b;
  lay_out(b, d, dv, rows, false, scratch);
  clear_last_panel(rows, d, b.key_panels);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = task.keys.begin + i;
    const T* key = p.key + row * p.key_stride + key_at(p, task.kv_head);
    const T* value = p.value + row * p.value_stride + value_at(p, task.kv_head);
    read_ahead(key, p.key_stride, d);
    read_ahead(value, p.value_stride, dv);
    prepare(p, key, p.key_rotary, row, p.key_weight, 1.0f, b.width, b.row);
    add_to_panels(b.row, i, d, b.key_panels);
    widen(value, dv, b.value_width, b.values + i * b.value_width);
  }
  float top[kQueryTile], total[kQueryTile];
  for (int64_t head = task.kv_head * group; head < (task.kv_head + 1) * group; ++head)
    for (int64_t first = 0; first < queries; first += kQueryTile) {
      const int64_t n = queries - first < kQueryTile ? queries - first : kQueryTile;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = task.queries.begin + first + i;
        const T* query = p.query + row * p.query_stride + query_at(p, head);
        read_ahead(query, p.query_stride, d);
        prepare(p, query, p.query_rotary, row, p.query_weight, p.scale, b.width, b.queries + i * b.width);
        top[i] = kNoScore;
        total[i] = 0;
        for (int64_t j = 0; j < b.value_width; ++j) b.outs[i * b.value_width + j] = 0;
      }
      const int64_t end = p.causal ? first + n : rows;
      for (int64_t begin = 0; begin < end; begin += kKeyBlock) {
        const int64_t keys = end - begin < kKeyBlock ? end - begin : kKeyBlock;
        against_panels(n, b.queries, b.width, b.key_panels, d, begin, keys, b.scores);
        for (int64_t i = 0; i < n; ++i) {
          float* scores = b.scores + i * kKeyBlock;
          const int64_t valid = seen(p.causal, first + i, begin, keys);
          for (int64_t j = valid; j < round_up(keys, kWidth); ++j) scores[j] = kNoScore;
          V best = broadcast(top[i]);
          for (int64_t j = 0; j < keys; j += kWidth) best = maximum(best, load(scores + j));
          const float new_top = largest(best);
          V sums{};
          for (int64_t j = 0; j < keys; j += kWidth) {
            const V e = exponential(load(scores + j) - new_top);
            sums += e;
            store(scores + j, e);
          }
          const float shrink = exponential(broadcast(top[i] - new_top))[0];
          total[i] = total[i] * shrink + sum(sums);
          top[i] = new_top;
          if (shrink != 1.0f)
            for (int64_t j = 0; j < b.value_width; j += kWidth)
              store(b.outs + i * b.value_width + j, load(b.outs + i * b.value_width + j) * shrink);
        }
        product(n, b.value_width, keys, {b.scores, kKeyBlock, 1}, b.values + begin * b.value_width, b.value_width,
                b.outs, b.value_width, true);
      }
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = task.queries.begin + first + i;
        const float inverse = 1.0f / total[i];
        T* to = p.out + (row * p.heads + head) * dv;
        write_ahead(to, p.heads * dv, dv);
        const float* from = b.outs + i * b.value_width;
        for_vectors(dv, [&](int64_t j, auto get, auto put) { put(to + j, get(from + j) * inverse); });
        p.log_sum[head * p.rows + row] = top[i] + __builtin_logf(total[i]);
      }
    }
}

template <typename T>
void attention_backward(const AttentionProblem<T>& p, const AttentionTask& task, float* scratch,
                        float* norm_gradients) {
  const int64_t rows = task.keys.end - task.keys.begin, queries = task.queries.end - task.queries.begin;
  const int64_t d = p.head_size, dv = p.value_size, group = p.heads / p.kv_heads;
  Buffers b;
  lay_out(b, d, dv, rows, true, scratch);
  clear_last_panel(rows, d, b.key_panels);
  clear_last_panel(rows, dv, b.value_panels);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = task.keys.begin + i;
    const T* key = p.key + row * p.key_stride + key_at(p, task.kv_head);
    const T* value = p.value + row * p.value_stride + value_at(p, task.kv_head);
    read_ahead(key, p.key_stride, d);
    read_ahead(value, p.value_stride, dv);
    float* prepared = b.keys + i * b.width;
    prepare(p, key, p.key_rotary, row, p.key_weight, 1.0f, b.width, prepared);
    add_to_panels(prepared, i, d, b.key_panels);
    widen(value, dv, b.value_width, b.row);
    add_to_panels(b.row, i, dv, b.value_panels);
  }
  for (int64_t i = 0; i < rows * b.width; ++i) b.dkeys[i] = 0;
  for (int64_t i = 0; i < rows * b.value_width; ++i) b.dvalues[i] = 0;
  float* query_weight_gradient = norm_gradients;
  float* key_weight_gradient = norm_gradients == nullptr ? nullptr : norm_gradients + d;
  if (norm_gradients != nullptr)
    for (int64_t i = 0; i < 2 * d; ++i) norm_gradients[i] = 0;

  float delta[kQueryTile], log_sum[kQueryTile];
  for (int64_t head = task.kv_head * group; head < (task.kv_head + 1) * group; ++head)
    for (int64_t first = 0; first < queries; first += kQueryTile) {
      const int64_t n = queries - first < kQueryTile ? queries - first : kQueryTile;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = task.queries.begin + first + i;
        const T* query = p.query + row * p.query_stride + query_at(p, head);
        read_ahead(query, p.query_stride, d);
        prepare(p, query, p.query_rotary, row, p.query_weight, p.scale, b.width, b.queries + i * b.width);
        const T *out = p.out + (row * p.heads + head) * dv, *gradient = p.dout + (row * p.heads + head) * dv;
        read_ahead(out, p.heads * dv, dv);
        read_ahead(gradient, p.heads * dv, dv);
        widen(gradient, dv, b.value_width, b.outs + i * b.value_width);
        const float* dout = b.outs + i * b.value_width;
        V dot{};
        for_vectors(dv, [&](int64_t j, auto get, auto) { dot += get(out + j) * get(dout + j); });
        delta[i] = sum(dot);
        log_sum[i] = p.log_sum[head * p.rows + row];
        for (int64_t j = 0; j < b.width; ++j) b.dqueries[i * b.width + j] = 0;
      }
      const int64_t end = p.causal ? first + n : rows;
      for (int64_t begin = 0; begin < end; begin += kKeyBlock) {
        const int64_t keys = end - begin < kKeyBlock ? end - begin : kKeyBlock;
        against_panels(n, b.queries, b.width, b.key_panels, d, begin, keys, b.scores);
        against_panels(n, b.outs, b.value_width, b.value_panels, dv, begin, keys, b.dscores);
        for (int64_t i = 0; i < n; ++i) {
          float *scores = b.scores + i * kKeyBlock, *dscores = b.dscores + i * kKeyBlock;
          const int64_t valid = seen(p.causal, first + i, begin, keys);
          for (int64_t j = valid; j < round_up(keys, kWidth); ++j) scores[j] = kNoScore;
          for (int64_t j = 0; j < keys; j += kWidth) {
            const V share = exponential(load(scores + j) - log_sum[i]);
            store(scores + j, share);
            store(dscores + j, share * (load(dscores + j) - delta[i]));
          }
        }
        product(keys, b.value_width, n, {b.scores, 1, kKeyBlock}, b.outs, b.value_width,
                b.dvalues + begin * b.value_width, b.value_width, true);
        product(keys, b.width, n, {b.dscores, 1, kKeyBlock}, b.queries, b.width, b.dkeys + begin * b.width, b.width,
                true);
        product(n, b.width, keys, {b.dscores, kKeyBlock, 1}, b.keys + begin * b.width, b.width, b.dqueries, b.width,
                true);
      }
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = task.queries.begin + first + i, at = row * p.query_stride + query_at(p, head);
        write_ahead(p.dquery + at, p.query_stride, d);
        unprepare(p, p.query + at, p.query_rotary, row, p.query_weight, p.scale, b.dqueries + i * b.width, b.row,
                  query_weight_gradient, p.dquery + at);
      }
    }
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = task.keys.begin + i, at = row * p.key_stride + key_at(p, task.kv_head);
    write_ahead(p.dkey + at, p.key_stride, d);
    unprepare(p, p.key + at, p.key_rotary, row, p.key_weight, 1.0f, b.dkeys + i * b.width, b.row, key_weight_gradient,
              p.dkey + at);
    T* to = p.dvalue + row * p.value_stride + value_at(p, task.kv_head);
    write_ahead(to, p.value_stride, dv);
    const float* from = b.dvalues + i * b.value_width;
    for_vectors(dv, [&](int64_t j, auto get, auto put) { put(to + j, get(from + j)); });
  }
}

inline int64_t attention_scratch(int64_t head_size, int64_t value_size, int64_t rows, bool backward) {
  Buffers b;
  return lay_out(b, head_size, value_size, rows, backward, nullptr);
}
