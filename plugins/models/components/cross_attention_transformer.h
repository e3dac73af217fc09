// A diffusion transformer over video patches that attend to one another, and look at a text (Wan, arXiv:2503.20314).
// Covers WanTransformer3DModel of diffusers 0.42 and the authors' WanModel, which differ in names.
//
//   unit 0             patches, text, time -> rows, text rows, conditioning
//   units 1..layers    layers
//   unit layers + 1    norm, map, loss
// Between units go rows [R, width], text [M, width], time [G, width] and its six vectors [G, 6 · width].
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "components/diffusion_batch.h"
#include "components/parameter_table.h"
#include "nn/chain.h"

namespace lf::components {

// Published names. A layer's stand after "blocks.N.".
struct CrossAttentionNames {
  std::string time_in, time_out, time_vectors, text_in, text_out;
  std::string table;                                // of a layer
  std::string self, cross, query, key, value, out;  // "attn1.", "to_q"
  std::string norm, up, down;                       // before the cross attention; of the feed-forward
  std::string last_table, last;
};

struct CrossAttentionConfig {
  std::vector<int64_t> patch_shape;  // [channels, frames, height, width] of one patch
  int64_t out_columns = 0, text_columns = 0, time_columns = 0, inner = 0;
  int64_t heads = 1, head_size = 0, layers = 0;
  double eps = 1e-6;
  bool cross_norm = true;
  CrossAttentionNames names;

  int64_t width() const { return heads * head_size; }
  int64_t units() const { return layers + 2; }
  nn::PairRotarySpec rotary() const;
};

ParameterTable parameter_table(const CrossAttentionConfig& config);

class CrossAttentionStage {
 public:
  CrossAttentionStage(CrossAttentionConfig config, uint32_t first_unit, uint32_t n_units);

  // unit counts from the stage's first. Parameters in table order.
  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  // One step per unit. The stage outlives them.
  std::vector<nn::Step> steps(std::shared_ptr<const DiffusionBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

 private:
  struct Unit {
    nn::Linear patch, time_in, time_out, time_vectors, text_in, text_out;  // the first
    nn::Parameter table;
    nn::Linear qkv, out, query, key_value, cross_out, up, down;
    nn::Norm self_query, self_key, cross_query, cross_key, norm;
    nn::Linear last;
    bool trains = false;
  };
  struct Layout;  // of a micro-batch, shared by the layers
  nn::Tensors begin(const Unit& unit, const DiffusionBatch& batch) const;
  nn::Tensors layer(const Unit& unit, const DiffusionBatch& batch, const Layout& layout, const nn::Tensors& in) const;
  nn::Tensors end(const Unit& unit, const DiffusionBatch& batch, const nn::Tensors& in) const;

  CrossAttentionConfig config_;
  uint32_t first_unit_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
