#include "reduction/flat_ops.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"

namespace lf {
namespace {

constexpr int64_t kPiece = 1 << 18;  // elements: 1 MiB, a few hundred microseconds of memory traffic

template <typename Work>
void in_pieces(int64_t n, int threads, const Work& work) {
  parallel_pieces(threads, (n + kPiece - 1) / kPiece,
                  [&](int64_t piece) { work(piece * kPiece, std::min(n, (piece + 1) * kPiece)); });
}

}  // namespace

void add_into(float* sum, const float* value, int64_t n, int threads) {
  in_pieces(n, threads, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum[i] += value[i];
  });
}

void move_out(float* to, float* from, int64_t n, int threads) {
  in_pieces(n, threads, [=](int64_t begin, int64_t end) {
    const size_t bytes = static_cast<size_t>(end - begin) * sizeof(float);
    std::memcpy(to + begin, from + begin, bytes);
    std::memset(from + begin, 0, bytes);
  });
}

void add_and_clear(float* sum, float* value, int64_t n, int threads) {
  in_pieces(n, threads, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      sum[i] += value[i];
      value[i] = 0;
    }
  });
}

void clear(float* values, int64_t n, int threads) {
  in_pieces(n, threads, [=](int64_t begin, int64_t end) {
    std::memset(values + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
  });
}

}  // namespace lf
