// A matrix product for tiles that lie in the cache. Included by kernels.cpp only, inside its unnamed namespace.

constexpr int64_t kTileVectors = LF_TILE_VECTORS;  // vectors of a row of C held in registers
constexpr int64_t kTileRows = LF_TILE_ROWS;        // rows of C held in registers
constexpr int64_t kPanel = kTileVectors * kWidth;

// A factor whose element (i, k) is at i * row + k * column.
struct Left {
  const float* data;
  int64_t row, column;
};

template <int kRows, int kVectors>
inline void tile(int64_t depth, Left a, const float* b, int64_t b_stride, float* c, int64_t c_stride, bool add) {
  V sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kVectors; ++v) sums[i][v] = add ? load(c + i * c_stride + v * kWidth) : V{};
  for (int64_t k = 0; k < depth; ++k) {
    V right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = load(b + k * b_stride + v * kWidth);
    for (int i = 0; i < kRows; ++i) {
      const V left = broadcast(a.data[i * a.row + k * a.column]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] += left * right[v];
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kVectors; ++v) store(c + i * c_stride + v * kWidth, sums[i][v]);
}

template <int kRows, int kVectors>
inline void last_rows(int64_t rows, int64_t depth, Left a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
                      bool add) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return tile<kRows, kVectors>(depth, a, b, b_stride, c, c_stride, add);
    last_rows<kRows - 1, kVectors>(rows, depth, a, b, b_stride, c, c_stride, add);
  }
}

template <int kVectors>
inline void strip(int64_t rows, int64_t depth, Left a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
                  bool add) {
  int64_t i = 0;
  for (; i + kTileRows <= rows; i += kTileRows)
    tile<kTileRows, kVectors>(depth, {a.data + i * a.row, a.row, a.column}, b, b_stride, c + i * c_stride, c_stride,
                              add);
  last_rows<kTileRows - 1, kVectors>(rows - i, depth, {a.data + i * a.row, a.row, a.column}, b, b_stride,
                                     c + i * c_stride, c_stride, add);
}

template <int kVectors>
inline void last_columns(int64_t vectors, int64_t rows, int64_t depth, Left a, const float* b, int64_t b_stride,
                         float* c, int64_t c_stride, bool add) {
  if constexpr (kVectors > 0) {
    if (vectors == kVectors) return strip<kVectors>(rows, depth, a, b, b_stride, c, c_stride, add);
    last_columns<kVectors - 1>(vectors, rows, depth, a, b, b_stride, c, c_stride, add);
  }
}

// c (+)= a b: a [rows, depth], b [depth, columns] row-major, c [rows, columns] row-major; columns a multiple of kWidth.
inline void product(int64_t rows, int64_t columns, int64_t depth, Left a, const float* b, int64_t b_stride, float* c,
                    int64_t c_stride, bool add) {
  int64_t j = 0;
  for (; j + kPanel <= columns; j += kPanel) strip<kTileVectors>(rows, depth, a, b + j, b_stride, c + j, c_stride, add);
  last_columns<kTileVectors - 1>((columns - j) / kWidth, rows, depth, a, b + j, b_stride, c + j, c_stride, add);
}
