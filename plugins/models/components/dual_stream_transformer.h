// A diffusion transformer with a stream for text and one for pictures that attend jointly (MM-DiT, arXiv:2403.03206),
// followed by layers where both share their weights and run attention and feed-forward side by side (Flux).
// Covers FluxTransformer2DModel and QwenImageTransformer2DModel of diffusers 0.42.
//
//   unit 0                        patches, text, time (and guidance, pooled text) -> rows and conditioning
//   units 1..double_layers        a layer of two streams
//   the next single_layers units  a layer of one
//   the last                      norm, map, loss
// Between units go rows [M + R, width], text before pictures, and conditioning [G, width].
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "components/diffusion_batch.h"
#include "components/parameter_table.h"
#include "nn/chain.h"

namespace lf::components {

// Published names, after which ".weight" and ".bias" stand.
struct DualStreamNames {
  std::string image_in, text_in;
  std::string image_modulation, text_modulation;  // after "transformer_blocks.N."
  std::string image_mlp, text_mlp;                // the same, before ".net.0.proj" and ".net.2"
};

struct DualStreamConfig {
  int64_t in_columns = 0, out_columns = 0, text_columns = 0;
  int64_t pooled_columns = 0;  // 0: none
  bool guidance = false, text_norm = false;
  int64_t heads = 1, head_size = 0, double_layers = 0, single_layers = 0;
  double time_scale = 1;  // of the time embedding's angles
  nn::PairRotarySpec rotary;
  DualStreamNames names;

  int64_t width() const { return heads * head_size; }
  int64_t units() const { return double_layers + single_layers + 2; }
};

ParameterTable parameter_table(const DualStreamConfig& config);

class DualStreamStage {
 public:
  DualStreamStage(DualStreamConfig config, uint32_t first_unit, uint32_t n_units);

  // unit counts from the stage's first. Parameters in table order.
  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  // One step per unit. The stage outlives them.
  std::vector<nn::Step> steps(std::shared_ptr<const DiffusionBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

 private:
  struct TwoLinears {
    nn::Linear first, second;
  };
  struct Half {  // of a layer of two streams
    nn::Linear modulation, qkv, out, up, down;
    nn::Norm query, key;
  };
  struct Unit {
    nn::Linear image_in, text_in;  // the first
    nn::Norm text_norm;
    TwoLinears time, guidance, pooled;
    Half text, image;            // a layer; of one stream: `image`, its `up` and `down` being proj_mlp and proj_out
    nn::Linear modulation, out;  // the last
    bool trains = false;
  };
  struct Layout;  // of a micro-batch, shared by the layers
  Half take_half(class Binding& binding, bool single) const;
  nn::Tensors begin(const Unit& unit, const DiffusionBatch& batch) const;
  nn::Tensors two_streams(const Unit& unit, bool text_goes_on, const DiffusionBatch& batch, const Layout& layout,
                          const nn::Tensors& in) const;
  nn::Tensors one_stream(const Unit& unit, const Layout& layout, const nn::Tensors& in) const;
  nn::Tensors end(const Unit& unit, const DiffusionBatch& batch, const nn::Tensors& in) const;

  DualStreamConfig config_;
  uint32_t first_unit_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
