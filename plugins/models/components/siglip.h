// SigLIP (arXiv:2303.15343) over square images of one size, and the linear map to a language model's columns:
// PaliGemma's tower (arXiv:2407.07726). LayerNorm before each half, biases everywhere, learned positions, no class
// token.
//
//   unit 0            patches -> rows, plus positions
//   units 1..depth    layers
//   unit depth + 1    the last norm, the map, edge "visual"
// Between units goes hidden [I n, width] for I images of n patches, row by row.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "components/parameter_table.h"
#include "nn/chain.h"
#include "nn/transformer_layer.h"

namespace lf::components {

struct SiglipConfig {
  int64_t depth = 0, width = 0, heads = 1, intermediate = 0, out_width = 0;
  int64_t channels = 3, patch = 14;
  int64_t side = 16;  // patches a side of an image
  double norm_eps = 1e-6, deviation = 0.02;
  std::string tower, projector;  // "vision_tower.vision_model.", "multi_modal_projector.linear"

  int64_t n_units() const { return depth + 2; }
  int64_t patch_columns() const { return channels * patch * patch; }
  int64_t image_patches() const { return side * side; }
};

ParameterTable parameter_table(const SiglipConfig& config);

// The images of one micro-batch.
struct SiglipBatch {
  at::Tensor pixels;  // [I n, patch columns]: channel, row, column within a patch; undefined where unit 0 is elsewhere
  nn::Segments images;
  at::Tensor taps, tap_weights;  // of each row into the positions: i64, f32 [I n, 1]
};

// pixels as collate made them, or undefined.
SiglipBatch siglip_batch(const SiglipConfig& config, int64_t n_images, const at::Tensor& pixels,
                         const at::TensorOptions& compute);

class SiglipStage {
 public:
  SiglipStage(SiglipConfig config, uint32_t first_unit, uint32_t n_units);

  // unit counts from the stage's first. Parameters in table order.
  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  // One step per unit. The stage outlives them.
  std::vector<nn::Step> steps(std::shared_ptr<const SiglipBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

 private:
  struct Unit {
    nn::Linear patch;
    nn::Parameter positions;
    nn::SelfAttention attention;
    nn::FeedForward mlp;
    nn::Norm norm;
    nn::Linear projector;
    bool trains = false;
  };
  nn::Tensors run(uint32_t unit, const SiglipBatch& batch, const nn::Tensors& in) const;

  SiglipConfig config_;
  uint32_t first_unit_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
