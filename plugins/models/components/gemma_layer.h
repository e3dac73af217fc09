// What the two decoders of PI0.5 share: the maps of a Gemma layer, by its published names.
#pragma once

#include <string>

#include "components/parameter_table.h"

namespace lf::components {

struct GemmaLayerShape {
  int64_t width = 0, intermediate = 0, heads = 1, kv_heads = 1, head_size = 0;
  double deviation = 0.02;
};

// Queries, keys and values in one: [(heads + 2 kv_heads) D, width].
ParameterSpec gemma_qkv(const GemmaLayerShape& shape, const std::string& block, uint32_t unit);
ParameterSpec gemma_out(const GemmaLayerShape& shape, const std::string& block, uint32_t unit);
// Gate and up in one: [2 I, width].
ParameterSpec gemma_gate_up(const GemmaLayerShape& shape, const std::string& block, uint32_t unit);
ParameterSpec gemma_down(const GemmaLayerShape& shape, const std::string& block, uint32_t unit);

}  // namespace lf::components
