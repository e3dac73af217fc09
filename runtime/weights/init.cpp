#include "weights/init.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <xxhash.h>

#include "core/error.h"
#include "weights/convert.h"

namespace lf {
namespace {

constexpr int64_t kChunk = 4096;             // values made at a time
constexpr int64_t kBlocks = kChunk / 4 + 2;  // of four, and what hangs over at both ends

// The functions below are straight lines of +, *, sqrt and integer operations, so that the compiler runs several blocks
// at a time and every machine gives the same bits. Coefficients: Moshier, Cephes Math Library 2.2, logf.c and sinf.c.

// Natural logarithm of 0 < x <= 1, to about one unit in the last place.
inline float log_of(float x) {
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  const int32_t bits = std::bit_cast<int32_t>(x) - kSqrtHalf;
  const auto exponent = static_cast<float>(bits >> 23);
  const float f =
      std::bit_cast<float>((bits & 0x7fffff) + kSqrtHalf) - 1.0f;  // mantissa in [sqrt(1/2), sqrt(2)), less 1
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float square = f * f;
  return f + (p * f * square - 0.5f * square) + exponent * 0.693147180559945f;
}

// Two independent normal values of mean 0 and deviation 1 from two random words (Box and Muller, 1958).
inline void normal_pair(uint32_t a, uint32_t b, float& x, float& y) {
  // a >> 1: conversion of signed numbers is one instruction. In (0, 1], so that the logarithm is finite.
  const float open = (static_cast<float>(static_cast<int32_t>(a >> 1)) + 0.5f) * 0x1p-31f;
  const float square = -2.0f * log_of(open);
  const float radius = std::sqrt(square > 0.0f ? square : 0.0f);
  // The upper two bits choose the quarter turn; the others an angle in [-pi/4, pi/4) about it.
  const float t = static_cast<float>(static_cast<int32_t>(b << 2) >> 1) * (0.785398163397448f * 0x1p-30f);
  const float z = t * t;
  const float sine = t + t * z * ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f);
  const float cosine =
      1.0f - 0.5f * z + z * z * ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f);
  const uint32_t turned = 0u - (b >> 31);  // all ones: a quarter further
  const uint32_t sign = b << 1 & 0x80000000u;
  const uint32_t sine_bits = std::bit_cast<uint32_t>(sine), cosine_bits = std::bit_cast<uint32_t>(cosine);
  x = radius * std::bit_cast<float>(((cosine_bits & ~turned) | (sine_bits & turned)) ^ sign);
  y = radius * std::bit_cast<float>(((sine_bits & ~turned) | (cosine_bits & turned)) ^ sign ^ (turned & 0x80000000u));
}

// One word of each of four arrays: the state of n generators, so that loops over them vectorize.
struct Words {
  alignas(64) std::array<uint32_t, kBlocks> a, b, c, d;
};

inline void philox_block(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, uint32_t key_0, uint32_t key_1) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * a, second = uint64_t{0xCD9E8D57} * c;
    a = static_cast<uint32_t>(second >> 32) ^ b ^ key_0;
    c = static_cast<uint32_t>(first >> 32) ^ d ^ key_1;
    b = static_cast<uint32_t>(second);
    d = static_cast<uint32_t>(first);
    key_0 += 0x9E3779B9;
    key_1 += 0xBB67AE85;
  }
}

// Blocks [first, first + n) of a stream, n at most kBlocks.
void random_words(uint64_t first, int64_t n, std::array<uint32_t, 2> key, Words& out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t counter = first + static_cast<uint64_t>(i);
    out.a[i] = static_cast<uint32_t>(counter);
    out.b[i] = static_cast<uint32_t>(counter >> 32);
    out.c[i] = out.d[i] = 0;
  }
  uint32_t *a = out.a.data(), *b = out.b.data(), *c = out.c.data(), *d = out.d.data();
  for (int64_t i = 0; i < n; ++i) philox_block(a[i], b[i], c[i], d[i], key[0], key[1]);
}

void normal_blocks(const Words& words, int64_t n, float mean, float deviation, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    float x, y, z, w;
    normal_pair(words.a[i], words.b[i], x, y);
    normal_pair(words.c[i], words.d[i], z, w);
    out[4 * i] = mean + deviation * x;
    out[4 * i + 1] = mean + deviation * y;
    out[4 * i + 2] = mean + deviation * z;
    out[4 * i + 3] = mean + deviation * w;
  }
}

void uniform_blocks(const Words& words, int64_t n, float low, float high, float* out) {
  const float last = std::nextafter(high, low);  // rounding may reach the open end
  const auto value = [&](uint32_t word) {
    const float at = low + (high - low) * (static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f);
    return at < last ? at : last;
  };
  for (int64_t i = 0; i < n; ++i) {
    out[4 * i] = value(words.a[i]);
    out[4 * i + 1] = value(words.b[i]);
    out[4 * i + 2] = value(words.c[i]);
    out[4 * i + 3] = value(words.d[i]);
  }
}

// Values [first, first + n) of a parameter, n at most kChunk.
class Source {
 public:
  Source(const ParameterInfo& parameter, uint64_t seed) : parameter_(parameter) {
    const uint64_t key = XXH3_64bits_withSeed(parameter.name.data(), parameter.name.size(), seed);
    key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
    if (parameter.init < LF_INIT_ZEROS || parameter.init > LF_INIT_UNIFORM)
      fail(Exit::kConfig, "parameter {}: unknown initialisation {}", parameter.name, parameter.init);
  }

  void fill(int64_t first, int64_t n, float* out) const {
    if (parameter_.init == LF_INIT_ZEROS || parameter_.init == LF_INIT_ONES) {
      std::fill_n(out, n, parameter_.init == LF_INIT_ONES ? 1.0f : 0.0f);
      return;
    }
    std::array<float, 4 * kBlocks> values;  // of whole blocks around the run
    Words words;
    const int64_t block = first / 4, n_blocks = (first + n + 3) / 4 - block;
    random_words(static_cast<uint64_t>(block), n_blocks, key_, words);
    const auto a = static_cast<float>(parameter_.init_a), b = static_cast<float>(parameter_.init_b);
    (parameter_.init == LF_INIT_NORMAL ? normal_blocks : uniform_blocks)(words, n_blocks, a, b, values.data());
    std::copy_n(values.data() + (first - 4 * block), n, out);
  }

 private:
  const ParameterInfo& parameter_;
  std::array<uint32_t, 2> key_;
};

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  philox_block(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
  return counter;
}

void initialise(const ParameterInfo& parameter, uint64_t seed, const Place& place, const Box& local, DType dtype,
                void* out) {
  const Source source(parameter, seed);
  const int64_t bytes = dtype_bytes(dtype);
  std::array<float, kChunk> values;
  std::vector<int64_t> shape;
  for (int axis = 0; axis < local.ndim; ++axis) shape.push_back(local.extent(axis));
  const auto full_stride = strides_of(parameter.shape);
  for (const HeldBox& held : held_boxes(parameter, place)) {
    const Box common = intersect(held.local, local);
    if (common.empty()) continue;
    const Box full = absolute_from(relative_to(common, held.local), held.full);
    // Row by row of the last axis: the rows of `common` in the packed box, and the same rows of `full` in the
    // parameter.
    const Box packed = relative_to(common, local);
    const int last = local.ndim - 1;
    const auto stride = strides_of(shape);
    std::array<int64_t, kMaxDims> index{};
    while (true) {
      int64_t to = 0, from = 0;
      for (int axis = 0; axis < local.ndim; ++axis) {
        to += (packed.begin[axis] + index[axis]) * stride[axis];
        from += (full.begin[axis] + index[axis]) * full_stride[axis];
      }
      const int64_t length = last < 0 ? 1 : packed.extent(last);
      for (int64_t done = 0; done < length; done += kChunk) {
        const int64_t n = std::min(kChunk, length - done);
        source.fill(from + done, n, values.data());
        convert(DType::kF32, values.data(), dtype, static_cast<char*>(out) + (to + done) * bytes, n);
      }
      int axis = last - 1;
      for (; axis >= 0; --axis) {
        if (++index[axis] < packed.extent(axis)) break;
        index[axis] = 0;
      }
      if (axis < 0) break;
    }
  }
}

}  // namespace lf
