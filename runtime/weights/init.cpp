#include "weights/init.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <xxhash.h>

#include "core/error.h"
#include "weights/convert.h"

namespace lf {
namespace {

constexpr int64_t kChunk = 4096;

// Value `index` of a parameter, for a run of indices.
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
    for (int64_t at = first; at < first + n;) {
      const std::array<double, 4> four = parameter_.init == LF_INIT_NORMAL ? normal(at / 4) : uniform(at / 4);
      for (int64_t lane = at % 4; lane < 4 && at < first + n; ++lane, ++at)
        out[at - first] = static_cast<float>(four[static_cast<size_t>(lane)]);
    }
  }

 private:
  std::array<uint32_t, 4> words(int64_t block) const {
    const auto counter = static_cast<uint64_t>(block);
    return philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, key_);
  }

  std::array<double, 4> normal(int64_t block) const {
    const auto word = words(block);
    std::array<double, 4> out;
    for (size_t pair = 0; pair < 4; pair += 2) {
      const double open = (word[pair] + 0.5) * 0x1p-32;  // in (0, 1): its logarithm is finite
      const double radius = std::sqrt(-2.0 * std::log(open));
      const double angle = 2.0 * std::numbers::pi * (word[pair + 1] * 0x1p-32);
      out[pair] = parameter_.init_a + parameter_.init_b * (radius * std::cos(angle));
      out[pair + 1] = parameter_.init_a + parameter_.init_b * (radius * std::sin(angle));
    }
    return out;
  }

  std::array<double, 4> uniform(int64_t block) const {
    const auto word = words(block);
    std::array<double, 4> out;
    for (size_t lane = 0; lane < 4; ++lane) {
      const double width = parameter_.init_b - parameter_.init_a;
      const double value = parameter_.init_a + width * (word[lane] * 0x1p-32);
      // Rounding to fp32 may reach the open end.
      out[lane] = static_cast<float>(value) < parameter_.init_b || width <= 0
                      ? value
                      : std::nextafter(static_cast<float>(parameter_.init_b), static_cast<float>(parameter_.init_a));
    }
    return out;
  }

  const ParameterInfo& parameter_;
  std::array<uint32_t, 2> key_;
};

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0], second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
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
