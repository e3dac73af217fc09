// A made-up step for reducer tests: leaves with known gradients, and their sum computed apart.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reduction/reduction.h"

namespace lf::test {

struct StepOfLeaves {
  int64_t leaves = 1;
  std::vector<int64_t> buffer_sizes{1003, 257};
  // As backward completes them: the second buffer's units, then the first's, from the end.
  std::vector<GradientUnit> units{{1, 100, 157}, {1, 0, 100}, {0, 900, 103}, {0, 500, 400}, {0, 490, 10}, {0, 0, 490}};

  // Unit u runs in some leaves only; unit 4 in none.
  bool runs(uint32_t unit, int64_t leaf) const { return unit != 4 && (unit == 2 || (leaf + unit) % 3 != 0); }

  // Of five magnitudes, so that sums round differently in every order.
  float gradient(uint32_t buffer, int64_t element, int64_t leaf) const {
    constexpr float kMagnitudes[] = {1.0f, 10.0f, 100.0f, 1e3f, 1e4f};
    const auto x = static_cast<float>((element * 7919 + buffer * 104729 + leaf * leaf * 1299709 + 1) % 10007 - 5003);
    return x * 1.37e-3f * kMagnitudes[(element + leaf) % 5];
  }

  float leaf_value(uint32_t unit, int64_t element, int64_t leaf) const {
    return runs(unit, leaf) ? gradient(units[unit].buffer, element, leaf) : 0.0f;
  }

  float tree_sum(uint32_t unit, int64_t element, int64_t begin, int64_t end) const {
    if (end - begin == 1) return leaf_value(unit, element, begin);
    const auto half = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(end - begin)) / 2);
    return tree_sum(unit, element, begin, begin + half) + tree_sum(unit, element, begin + half, end);
  }

  // Backward of one leaf: adds to the buffers and tells the reducer, unit by unit.
  void backward(int64_t leaf, std::vector<std::vector<float>>& buffers, Reducer& reducer) const {
    for (uint32_t u = 0; u < units.size(); ++u) {
      if (!runs(u, leaf)) continue;
      for (int64_t e = units[u].offset; e < units[u].offset + units[u].length; ++e) {
        buffers[units[u].buffer][static_cast<size_t>(e)] += gradient(units[u].buffer, e, leaf);
      }
      reducer.unit_done(u);
    }
  }

  // One step of this rank; `leaves_per_rank` sum to `leaves`.
  ReducedStep run(Reducer& reducer, const std::vector<int64_t>& leaves_per_rank, int rank,
                  std::vector<std::vector<float>>& buffers) const {
    int64_t first = 0;
    for (int r = 0; r < rank; ++r) first += leaves_per_rank[static_cast<size_t>(r)];
    reducer.begin_step(leaves_per_rank);
    for (int64_t leaf = first; leaf < first + leaves_per_rank[static_cast<size_t>(rank)]; ++leaf) {
      backward(leaf, buffers, reducer);
      reducer.leaf_done();
    }
    return reducer.finish();
  }

  std::vector<std::vector<float>> new_buffers() const {
    std::vector<std::vector<float>> buffers;
    for (int64_t n : buffer_sizes) buffers.emplace_back(n, 99.0f);  // garbage of an earlier life
    return buffers;
  }

  ReducerConfig config(Group& group, std::vector<std::vector<float>>& buffers, ReductionMode mode,
                       int64_t bucket_bytes) const {
    ReducerConfig config;
    config.group = &group;
    for (auto& buffer : buffers) config.gradients.emplace_back(buffer);
    config.units = units;
    config.bucket_bytes = bucket_bytes;
    config.mode = mode;
    config.threads = 2;
    return config;
  }
};

// L leaves over R ranks: even, or as uneven as a contiguous dealing can be.
inline std::vector<std::vector<int64_t>> dealings(int64_t leaves, int ranks) {
  std::vector<int64_t> even, front(static_cast<size_t>(ranks), 0), back(static_cast<size_t>(ranks), 0);
  for (int r = 0; r < ranks; ++r) even.push_back(leaves * (r + 1) / ranks - leaves * r / ranks);
  front.front() = leaves;
  back.back() = leaves - leaves / 3;
  back.front() += leaves / 3;
  return {even, front, back};
}

}  // namespace lf::test
