// What a sample is in numbers, and what a unit costs for samples. Pure.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "diffusion/packed_sample.h"
#include "lf/plugin_api/model.h"

namespace lf::diffusion {

inline constexpr const char* kFeatures[] = {
    "rows",         // text and image rows
    "loss_weight",  // samples
    "image_rows",
    "pairs",          // of rows that attend to one another
    "cross_pairs",    // of image rows and the text rows that they look at (Wan); else 0
    "conditionings",  // times: rows that modulations are made of
};

std::vector<double> features_of(std::span<const PackedSample> samples, const DiffusionConfig& config);

// Units as the component numbers them. `atoms`: rows of features. A product of [m, k] and [k, n] counts 2mkn; attention
// 4 products of pairs forward and twice that backward; what is not a product counts nothing. Bytes are estimates from
// the tensors that a layer's backward reads, `value_bytes` each.
lf_cost cost_of(const DiffusionConfig& config, uint32_t unit, std::span<const double> atoms, int64_t value_bytes);

}  // namespace lf::diffusion
