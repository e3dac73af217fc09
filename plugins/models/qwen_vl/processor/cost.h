// What an atom is, in numbers, and what a unit costs for atoms. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "family/sequence.h"
#include "lf/plugin_api/model.h"
#include "qwen_vl/config.h"

namespace lf::qwen_vl {

using family::Sequence;
using family::VisionInput;

// Vision: a picture, or a temporal group of a video. Language: a sample.
inline constexpr std::string_view kVisionFeatures[] = {
    "rows",          // patches
    "frame_pairs",   // of patches that attend to one another where a layer sees the whole frame
    "window_pairs",  // the same where it sees windows (Qwen2.5-VL); else 0
};
inline constexpr std::string_view kLanguageFeatures[] = {
    "rows",         // tokens
    "loss_weight",  // supervised tokens
    "pairs",        // of tokens that attend to one another
};

// Row-major, one row of features per atom.
struct Features {
  std::vector<double> vision, language;
  uint32_t vision_atoms() const { return static_cast<uint32_t>(vision.size() / std::size(kVisionFeatures)); }
  uint32_t language_atoms() const { return static_cast<uint32_t>(language.size() / std::size(kLanguageFeatures)); }
};
// Of one sample.
Features features_of(std::span<const Sequence> sequences, const QwenVlConfig& config);

// Units as the components number them: vision 0 patches, 1..depth layers, depth + 1 merger; language 0
// table, 1..layers, layers + 1 norm, head and loss. `atoms`: n rows of the component's features. A product of [m, k]
// and [k, n] counts 2mkn; attention 4 products of pairs forward and twice that backward; what is not a product counts
// nothing. Bytes are estimates from the tensors that a layer's backward reads, `value_bytes` each. Throws sdk::Failure
// LF_E_INVALID for a unit that is not there.
lf_cost cost_of(const QwenVlConfig& config, uint32_t component, uint32_t unit, std::span<const double> atoms,
                int64_t value_bytes);

}  // namespace lf::qwen_vl
