// What a unit costs for atoms, in products and bytes, and what a sample is in numbers. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "family/sequence.h"
#include "family/text_config.h"
#include "lf/plugin_api/model.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

// A product of [m, k] and [k, n] counts 2mkn; attention 4 products of pairs forward and twice that backward; what is
// not a product counts nothing. Bytes are estimates from the tensors that a layer's backward reads.
struct Work {
  double linear = 0;                    // of weights: forward, and each of the two backward products, cost the same
  double attention = 0;                 // products without weights
  double saved = 0, peak = 0, out = 0;  // values

  lf_cost cost(int64_t value_bytes, bool input_gradient) const;
};

// Sums over atoms of N features. Throws sdk::Failure LF_E_INVALID for a number of numbers that is no multiple of N.
template <size_t N>
std::array<double, N> totals(std::span<const double> atoms) {
  if (atoms.size() % N != 0)
    throw sdk::Failure(LF_E_INVALID, "cost: expected " + std::to_string(N) + " features per atom, got " +
                                         std::to_string(atoms.size()) + " numbers");
  std::array<double, N> sums{};
  for (size_t i = 0; i < atoms.size(); ++i) sums[i % N] += atoms[i];
  return sums;
}

// Norm, map, activation, map of `tokens` rows.
Work merger_work(double tokens, int64_t in, int64_t inner, int64_t out);
// A decoder's unit (language_decoder.h) for atoms of rows, loss weight and pairs. `supervised` >= 0: rows that are
// learnt, where the loss weight is another number.
Work decoder_work(const TextConfig& config, int64_t unit, std::span<const double> atoms, double supervised = -1);

// Of one sample: rows, supervised rows, pairs that attend to one another.
std::vector<double> language_features(std::span<const Sequence> sequences);

}  // namespace lf::family
