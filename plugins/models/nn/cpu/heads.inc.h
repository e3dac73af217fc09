// Heads normed and rotated by pairs on their way to other rows. Included by kernels.cpp only, inside its unnamed
// namespace.

// Neighbours exchanged. Rows of a head begin at even places, so pairs never straddle vectors.
inline V swap_pairs(V v) {
  VI places;
  for (int32_t i = 0; i < static_cast<int32_t>(kWidth); ++i) places[i] = i ^ 1;
  return __builtin_shuffle(v, places);
}

// 1 / sqrt(mean of squares + eps) of n values of any type.
template <typename T>
inline float inverse_rms_of(const T* x, int64_t n, float eps) {
  V squares{};
  for_vectors(n, [&](int64_t i, auto get, auto) {
    const V v = get(x + i);
    squares += v * v;
  });
  return 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + eps);
}

template <typename T>
void heads_forward(const HeadsProblem<T>& p, Range range) {
  const int64_t d = p.head_size, normed = p.norm_heads * d;
  for (int64_t row = range.begin; row < range.end; ++row) {
    const int64_t to_row = p.to == nullptr ? row : p.to[row];
    const T* x = p.x + row * p.x_stride;
    T* y = p.y + to_row * p.y_stride;
    const float* c = p.cosine == nullptr ? nullptr : p.cosine + to_row * d;
    const float* s = p.sine == nullptr ? nullptr : p.sine + to_row * d;
    float inverse = 1;
    for (int64_t head = 0; head < p.heads; ++head) {
      const int64_t at = head * d;
      if (p.weight != nullptr && at % normed == 0) inverse = inverse_rms_of(x + at, normed, p.eps);
      for_vectors(d, [&](int64_t i, auto get, auto put) {
        V v = get(x + at + i);
        if (p.weight != nullptr) v = v * inverse * get(p.weight + at + i);
        if (c != nullptr) v = v * get(c + i) + swap_pairs(v) * get(s + i);
        put(y + at + i, v);
      });
    }
  }
}

template <typename T>
void heads_backward(const HeadsProblem<T>& p, Range range, float* dweight) {
  const int64_t d = p.head_size, normed = p.norm_heads * d;
  for (int64_t row = range.begin; row < range.end; ++row) {
    const int64_t to_row = p.to == nullptr ? row : p.to[row];
    const T *x = p.x + row * p.x_stride, *dy = p.dy + to_row * p.y_stride;
    T* dx = p.dx + row * p.x_stride;
    const float* c = p.cosine == nullptr ? nullptr : p.cosine + to_row * d;
    const float* s = p.sine == nullptr ? nullptr : p.sine + to_row * d;
    // The gradient before the rotation: the rotation back.
    const auto unrotated = [&](int64_t at, int64_t i, auto get) {
      const V g = get(dy + at + i);
      return c == nullptr ? g : g * get(c + i) + swap_pairs(g * get(s + i));
    };
    for (int64_t first = 0; first < p.heads; first += p.norm_heads) {
      float inverse = 1, along = 0;
      if (p.weight != nullptr) {
        inverse = inverse_rms_of(x + first * d, normed, p.eps);
        V dot{};
        for (int64_t head = first; head < first + p.norm_heads; ++head) {
          const int64_t at = head * d;
          for_vectors(d, [&](int64_t i, auto get, auto put) {
            const V g = unrotated(at, i, get), x_hat = get(x + at + i) * inverse;
            if (dweight != nullptr) put(dweight + at + i, get(dweight + at + i) + g * x_hat);
            dot += g * get(p.weight + at + i) * x_hat;
          });
        }
        along = sum(dot) / static_cast<float>(normed);
      }
      for (int64_t head = first; head < first + p.norm_heads; ++head) {
        const int64_t at = head * d;
        for_vectors(d, [&](int64_t i, auto get, auto put) {
          V g = unrotated(at, i, get);
          if (p.weight != nullptr) g = (g * get(p.weight + at + i) - get(x + at + i) * inverse * along) * inverse;
          put(dx + at + i, g);
        });
      }
    }
  }
}
