#include "components/gemma_layer.h"

namespace lf::components {

ParameterSpec gemma_qkv(const GemmaLayerShape& s, const std::string& block, uint32_t unit) {
  const auto part = [&](const char* which, int64_t heads) {
    return Part{block + "self_attn." + which + "_proj.weight", {heads * s.head_size, s.width}};
  };
  return linear_map(joined(block + "self_attn.qkv_proj.weight", unit,
                           {part("q", s.heads), part("k", s.kv_heads), part("v", s.kv_heads)}, Init::kNormal,
                           s.deviation));
}

ParameterSpec gemma_out(const GemmaLayerShape& s, const std::string& block, uint32_t unit) {
  return linear_map(
      whole(block + "self_attn.o_proj.weight", unit, {s.width, s.heads * s.head_size}, Init::kNormal, s.deviation));
}

ParameterSpec gemma_gate_up(const GemmaLayerShape& s, const std::string& block, uint32_t unit) {
  const std::vector<int64_t> shape = {s.intermediate, s.width};
  return linear_map(joined(block + "mlp.gate_up_proj.weight", unit,
                           {{block + "mlp.gate_proj.weight", shape}, {block + "mlp.up_proj.weight", shape}},
                           Init::kNormal, s.deviation));
}

ParameterSpec gemma_down(const GemmaLayerShape& s, const std::string& block, uint32_t unit) {
  return linear_map(whole(block + "mlp.down_proj.weight", unit, {s.width, s.intermediate}, Init::kNormal, s.deviation));
}

}  // namespace lf::components
