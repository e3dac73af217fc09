#include "media/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

namespace lf::media {
namespace {

constexpr int kChannels = 3;
constexpr int kFractionBits = 32 - 8 - 2;  // products of 8-bit values and coefficients, summed, stay within 32 bits
constexpr int32_t kHalf = 1 << (kFractionBits - 1);
constexpr int kLanes = 16;
using Bytes [[gnu::vector_size(kLanes)]] = uint8_t;
using Halves [[gnu::vector_size(kLanes * 2)]] = uint16_t;
using Words [[gnu::vector_size(kLanes * 4)]] = int32_t;

double cubic(double x) {
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * -0.5;
  return 0;
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

struct Filter {
  double (*weight)(double);
  double support;  // to each side, in source pixels where nothing is reduced
};
constexpr Filter kCubic{cubic, 2}, kTriangle{triangle, 1};

// For each target pixel the first source pixel it sees, how many, and their weights.
struct Kernel {
  struct Span {
    int64_t first;
    int32_t count;
  };
  std::vector<Span> spans;
  std::vector<int32_t> weights;
  int64_t stride;

  Kernel(const Filter& filter, int64_t source, int64_t target) {
    const double scale = static_cast<double>(source) / static_cast<double>(target);
    const double reduction = std::max(scale, 1.0);
    const double support = filter.support * reduction;
    stride = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
    spans.resize(static_cast<size_t>(target));
    weights.assign(static_cast<size_t>(target * stride), 0);
    std::vector<double> exact(static_cast<size_t>(stride));
    for (int64_t at = 0; at < target; ++at) {
      const double centre = (static_cast<double>(at) + 0.5) * scale;
      const auto first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
      const auto end = std::min<int64_t>(static_cast<int64_t>(centre + support + 0.5), source);
      double sum = 0;
      for (int64_t i = first; i < end; ++i) {
        const double weight = filter.weight((static_cast<double>(i) - centre + 0.5) * (1.0 / reduction));
        exact[static_cast<size_t>(i - first)] = weight;
        sum += weight;
      }
      for (int64_t i = 0; i < end - first; ++i) {
        const double weight = sum != 0 ? exact[static_cast<size_t>(i)] / sum : exact[static_cast<size_t>(i)];
        weights[static_cast<size_t>(at * stride + i)] =
            static_cast<int32_t>(weight * (1 << kFractionBits) + (weight < 0 ? -0.5 : 0.5));
      }
      spans[static_cast<size_t>(at)] = {first, static_cast<int32_t>(end - first)};
    }
  }
};

[[gnu::always_inline]] inline Bytes to_bytes(Words sum) {
  sum >>= kFractionBits;
  sum = sum < 0 ? Words{} : sum;
  sum = sum > 255 ? Words{} + 255 : sum;
  return __builtin_convertvector(__builtin_convertvector(sum, Halves), Bytes);
}

[[gnu::always_inline]] inline Bytes load(const uint8_t* from) {
  Bytes out;
  std::memcpy(&out, from, sizeof out);
  return out;
}
// In two steps: GCC 12 has an instruction for each, and takes the direct one apart, lane by lane.
[[gnu::always_inline]] inline Words load_words(const uint8_t* from) {
  return __builtin_convertvector(__builtin_convertvector(load(from), Halves), Words);
}
[[gnu::always_inline]] inline void store(uint8_t* to, Bytes value) { std::memcpy(to, &value, sizeof value); }

// 16 rows of 16 bytes, rows and columns swapped, by four rounds of interleaving.
[[gnu::always_inline]] inline void transpose(const uint8_t* from, int64_t from_stride, uint8_t* to, int64_t to_stride) {
  constexpr Bytes kLow = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  constexpr Bytes kHigh = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  Bytes rows[kLanes], next[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = load(from + i * from_stride);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + kLanes / 2], kLow);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + kLanes / 2], kHigh);
    }
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < kLanes; ++i) store(to + i * to_stride, rows[i]);
}

// Rows get longer or shorter. Sixteen rows go at once, one to a lane, so that a pixel's weights are the same for all.
// source: [height, width of the kernel's source, 3]; target: [height, width of its target, 3].
[[gnu::target_clones("avx512f", "avx2", "default")]] void resize_rows(const uint8_t* source, int64_t source_width,
                                                                      uint8_t* target, int64_t target_width,
                                                                      int64_t height, const Kernel& kernel) {
  const int64_t in_bytes = source_width * kChannels, out_bytes = target_width * kChannels;
  const int64_t in_padded = (in_bytes + kLanes - 1) / kLanes * kLanes,
                out_padded = (out_bytes + kLanes - 1) / kLanes * kLanes;
  const auto rows = std::make_unique<uint8_t[]>(static_cast<size_t>(kLanes * std::max(in_padded, out_padded)));
  const auto in = std::make_unique<uint8_t[]>(static_cast<size_t>(kLanes * in_padded));
  const auto out = std::make_unique<uint8_t[]>(static_cast<size_t>(kLanes * out_padded));
  for (int64_t top = 0; top < height; top += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, height - top);
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(&rows[static_cast<size_t>(r * in_padded)], source + (top + r) * in_bytes,
                  static_cast<size_t>(in_bytes));
    for (int64_t x = 0; x < in_padded; x += kLanes)
      transpose(&rows[static_cast<size_t>(x)], in_padded, &in[static_cast<size_t>(x * kLanes)], kLanes);
    for (int64_t x = 0; x < target_width; ++x) {
      const auto [first, taps] = kernel.spans[static_cast<size_t>(x)];
      const int32_t* weights = &kernel.weights[static_cast<size_t>(x * kernel.stride)];
      const uint8_t* pixel = &in[static_cast<size_t>(first * kChannels * kLanes)];
      Words red = Words{} + kHalf, green = red, blue = red;
      for (int32_t i = 0; i < taps; ++i, pixel += kChannels * kLanes) {
        red += weights[i] * load_words(pixel);
        green += weights[i] * load_words(pixel + kLanes);
        blue += weights[i] * load_words(pixel + 2 * kLanes);
      }
      uint8_t* to = &out[static_cast<size_t>(x * kChannels * kLanes)];
      store(to, to_bytes(red));
      store(to + kLanes, to_bytes(green));
      store(to + 2 * kLanes, to_bytes(blue));
    }
    for (int64_t x = 0; x < out_padded; x += kLanes)
      transpose(&out[static_cast<size_t>(x * kLanes)], kLanes, &rows[static_cast<size_t>(x)], out_padded);
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(target + (top + r) * out_bytes, &rows[static_cast<size_t>(r * out_padded)],
                  static_cast<size_t>(out_bytes));
  }
}

// Columns get longer or shorter. source: [rows of the kernel's source, row_bytes]; target: [rows of its target,
// row_bytes].
[[gnu::target_clones("avx512f", "avx2", "default")]] void resize_columns(const uint8_t* source, uint8_t* target,
                                                                         int64_t target_height, int64_t row_bytes,
                                                                         const Kernel& kernel) {
  for (int64_t y = 0; y < target_height; ++y) {
    const auto [first, taps] = kernel.spans[static_cast<size_t>(y)];
    const int32_t* weights = &kernel.weights[static_cast<size_t>(y * kernel.stride)];
    const uint8_t* rows = source + first * row_bytes;
    uint8_t* to = target + y * row_bytes;
    int64_t x = 0;
    for (; x + kLanes <= row_bytes; x += kLanes) {
      Words sum = Words{} + kHalf;
      for (int32_t i = 0; i < taps; ++i) sum += weights[i] * load_words(rows + i * row_bytes + x);
      store(to + x, to_bytes(sum));
    }
    for (; x < row_bytes; ++x) {
      int32_t sum = kHalf;
      for (int32_t i = 0; i < taps; ++i) sum += weights[i] * rows[i * row_bytes + x];
      to[x] = static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
    }
  }
}

bool columns_go_first(Size size, Size target, PassOrder order) {
  return order == PassOrder::kPillow && target.height < size.height &&
         size.height - target.height > 2 * (size.width - target.width);
}

void resize(const Filter& filter, const uint8_t* source, Size size, uint8_t* target, Size target_size,
            PassOrder order) {
  const auto [height, width] = size;
  const auto [target_height, target_width] = target_size;
  const int64_t row = width * kChannels, target_row = target_width * kChannels;
  const auto rows = [&](const uint8_t* from, uint8_t* to, int64_t count) {
    resize_rows(from, width, to, target_width, count, Kernel(filter, width, target_width));
  };
  const auto columns = [&](const uint8_t* from, uint8_t* to, int64_t row_bytes) {
    resize_columns(from, to, target_height, row_bytes, Kernel(filter, height, target_height));
  };
  if (height == target_height && width == target_width) {
    std::memcpy(target, source, static_cast<size_t>(height * row));
  } else if (height == target_height) {
    rows(source, target, height);
  } else if (width == target_width) {
    columns(source, target, row);
  } else if (columns_go_first(size, target_size, order)) {
    const std::unique_ptr<uint8_t[]> between(new uint8_t[static_cast<size_t>(target_height * row)]);
    columns(source, between.get(), row);
    rows(between.get(), target, target_height);
  } else {
    const std::unique_ptr<uint8_t[]> between(new uint8_t[static_cast<size_t>(height * target_row)]);
    rows(source, between.get(), height);
    columns(between.get(), target, target_row);
  }
}

}  // namespace

void resize_bicubic(const uint8_t* source, Size size, uint8_t* target, Size target_size, PassOrder order) {
  resize(kCubic, source, size, target, target_size, order);
}

void resize_bilinear(const uint8_t* source, Size size, uint8_t* target, Size target_size, PassOrder order) {
  resize(kTriangle, source, size, target, target_size, order);
}

}  // namespace lf::media
