// What a sample is in numbers, and what a unit costs for samples. Pure.
#pragma once

#include <span>

#include "family/features.h"
#include "lf/plugin_api/model.h"
#include "pi05/config.h"

namespace lf::pi05 {

enum Component : uint32_t { kVision = 0, kLanguage = 1, kAction = 2 };

inline constexpr const char* kVisionFeatures[] = {"rows", "pairs"};
inline constexpr const char* kLanguageFeatures[] = {"rows", "pairs"};
// rows: of the prefix and of the chunk, as data.max_tokens counts them. loss_weight: actions that count.
inline constexpr const char* kActionFeatures[] = {"rows", "loss_weight", "actions", "pairs", "samples"};

struct SampleSize {
  int64_t images = 0, tokens = 0, valid_actions = 0;
};
// Of samples as one: an atom an image, an atom for all prefixes, an atom for all chunks.
family::Features features_of(std::span<const SampleSize> samples, const Pi05Config& config);

// Units as the components number them. A product of [m, k] and [k, n] counts 2mkn; attention 4 products of pairs
// forward and twice that backward; what is not a product counts nothing. Bytes are estimates from the tensors that a
// layer's backward reads.
lf_cost cost_of(const Pi05Config& config, uint32_t component, uint32_t unit, std::span<const double> atoms);

}  // namespace lf::pi05
