// What a sample is, in numbers, and what a unit costs for samples. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "components/latent_decoder.h"
#include "family/sequence.h"
#include "lf/plugin_api/model.h"

namespace lf::deepseek {

enum Feature : size_t { kRows, kLossWeight, kPairs, kSelectedPairs, kMtpWeight };
inline constexpr std::string_view kFeatures[] = {
    "rows",            // tokens
    "loss_weight",     // supervised tokens
    "pairs",           // of tokens where one sees the other
    "selected_pairs",  // of them, those within the indexer's top_k; all without an indexer
    "mtp_weight",      // tokens supervised one further on
};

// Of one sample. top_k 0: no indexer.
std::vector<double> features_of(std::span<const family::Sequence> sequences, int64_t top_k);

// Units as the component numbers them. `atoms`: samples x features. A product of [m, k] and [k, n] counts 2mkn; what is
// not a product counts nothing. Bytes are estimates from the tensors that backward reads, `value_bytes` each. Throws
// sdk::Failure LF_E_INVALID for a unit that is not there.
lf_cost cost_of(const components::LatentDecoderConfig& config, uint32_t unit, std::span<const double> atoms,
                int64_t value_bytes);

}  // namespace lf::deepseek
