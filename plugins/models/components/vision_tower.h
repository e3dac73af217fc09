// A vision transformer over packed patches of any sizes, and the merger that turns m x m patches into one row for a
// language model. Covers the towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL.
//
//   unit 0            patches -> rows (a matrix product), plus the learned grid where there is one
//   units 1..depth    layers; a layer named in deepstack_layers also merges its rows for edge "deepstack.k"
//   unit depth + 1    the merger, edge "visual"
// Between units goes one tensor, hidden [P, width], in window order where the tower has windows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "components/merger.h"
#include "components/parameter_table.h"
#include "components/vision_layout.h"
#include "nn/chain.h"
#include "nn/parallel.h"
#include "nn/transformer_layer.h"

namespace lf::components {

struct VisionNames {
  std::string prefix;                                        // "visual."
  std::vector<std::string> up;                               // "mlp.fc1", or gate and up
  std::string down;                                          // "mlp.fc2"
  std::string merger_norm, merger_up, merger_down;           // after merger_prefix
  std::string deepstack_norm, deepstack_up, deepstack_down;  // after "deepstack_merger_list.K."
  std::string merger_prefix = {};                            // empty: prefix and "merger."
};

struct VisionTowerConfig {
  int64_t depth = 0, width = 0, heads = 1, intermediate = 0, out_width = 0;
  std::vector<int64_t> patch_shape;  // [channels, frames, height, width] of one patch
  bool patch_bias = false;
  int64_t merge = 2;
  int64_t merger_inner = 0;         // columns between the merger's two maps; 0: width times merge²
  bool merger_norm_patches = true;  // false: its norm is over the merged patches together
  nn::NormKind norm = nn::NormKind::kLayer;
  nn::Activation activation = nn::Activation::kQuickGelu;
  int64_t position_side = 0;              // of the learned grid; 0: none
  int64_t window = 0;                     // tokens; 0: every layer sees whole frames
  std::vector<int64_t> full_layers;       // with windows: layers that see whole frames all the same
  std::vector<int64_t> deepstack_layers;  // ascending
  double rope_theta = 10000, deviation = 0.02;
  VisionNames names;

  int64_t n_units() const { return depth + 2; }
  int64_t patch_columns() const;
  int64_t deepstack_of(int64_t layer) const;  // its place in deepstack_layers, or -1
};

ParameterTable parameter_table(const VisionTowerConfig& config);

// The images and videos of one micro-batch.
struct VisionBatch {
  at::Tensor pixels;  // [P, patch columns] in the compute dtype; empty where the stage does not begin the tower
  nn::RotaryTable rotary;
  nn::Segments frames, windows;
  at::Tensor patch_order, patch_order_inverse;  // i64 [P]; undefined without windows
  at::Tensor token_order, token_order_inverse;  // i64 [P / m²]
  at::Tensor taps, tap_weights;                 // undefined without a learned grid
};

// pixels: as collate made them, any float dtype. Throws where grids and pixels disagree.
VisionBatch vision_batch(const VisionTowerConfig& config, const std::vector<PatchGrid>& grids, const at::Tensor& pixels,
                         const at::TensorOptions& compute);

// Some units of a tower, with their parameters.
class VisionStage {
 public:
  VisionStage(VisionTowerConfig config, uint32_t first_unit, uint32_t n_units, nn::ParallelContext parallel);

  // unit counts from the stage's first. Parameters in table order.
  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  // One step per unit. The stage outlives them.
  std::vector<nn::Step> steps(std::shared_ptr<const VisionBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

 private:
  struct Unit {
    nn::Linear patch;
    nn::Parameter grid;
    nn::SelfAttention attention;
    nn::FeedForward mlp;
    Merger merger;
    bool trains = false;
  };
  nn::Tensors run(uint32_t unit, const VisionBatch& batch, const nn::Tensors& in) const;

  VisionTowerConfig config_;
  uint32_t first_unit_;
  nn::ParallelContext parallel_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
