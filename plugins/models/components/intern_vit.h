// InternViT (arXiv:2312.14238, arXiv:2404.16821): a vision transformer over square tiles with a class token, learned
// positions and layer scale, 300M style (LayerNorm, qkv bias) and 6B style (RMSNorm, norms of whole queries and keys);
// and the projector that turns m x m patches into one row for a language model.
//
//   unit 0            patches -> rows after a class row for each tile, plus positions
//   units 1..depth    layers
//   unit depth + 1    class rows dropped, projector, edge "visual"
// Between units goes hidden [T (1 + n), width] for T tiles of n patches. Patches come in merge-block order (see
// vision_layout.h), in which InternVL's pixel shuffle "v2" is a view; no layer of the tower sees the order.
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

// Whose names files have: transformers' "-hf" checkpoints, or OpenGVLab's.
enum class InternVitNaming { kTransformers, kOriginal };

struct InternVitConfig {
  int64_t depth = 0, width = 0, heads = 1, intermediate = 0, out_width = 0;
  int64_t channels = 3, patch = 14;
  int64_t side = 32;       // patches a side of the learned positions
  int64_t tile_side = 32;  // patches a side of tiles; positions are resized where it is another
  int64_t merge = 2;
  nn::NormKind norm = nn::NormKind::kLayer;
  double norm_eps = 1e-6;
  nn::Activation activation = nn::Activation::kGelu;
  bool qkv_bias = true, query_key_norms = false;
  double layer_scale = 0.1;             // to begin with
  double projector_norm_eps = 1e-5;     // PyTorch's default, whatever the tower has
  int64_t projector_inner = 0;          // columns between its two maps; 0: out_width
  bool projector_norm_patches = false;  // true: its norm is over each patch
  double deviation = 0.02;
  InternVitNaming naming = InternVitNaming::kTransformers;
  std::string prefix, projector;  // "vision_tower.", "multi_modal_projector."

  int64_t n_units() const { return depth + 2; }
  int64_t patch_columns() const { return channels * patch * patch; }
  int64_t tile_patches() const { return tile_side * tile_side; }
};

ParameterTable parameter_table(const InternVitConfig& config);

// Taps of every row of one tile, class row first, into the table of positions [1 + side², width]: one each where sizes
// agree, else 16 (bicubic, a = -3/4, corners not aligned, as PyTorch's interpolate).
Taps tile_taps(int64_t tile_side, int64_t side, int64_t merge);

// The tiles of one micro-batch.
struct InternVitBatch {
  at::Tensor pixels;                 // [T n, patch columns]; undefined where the stage does not begin the tower
  nn::Segments tiles;                // rows of each tile
  at::Tensor class_ids, patch_rows;  // i64 [T (1 + n)] zeros; i64 [T n]: where patches stand
  at::Tensor taps, tap_weights;      // [T (1 + n), t]
};

// pixels as collate made them, or undefined; n_tiles of them.
InternVitBatch intern_vit_batch(const InternVitConfig& config, int64_t n_tiles, const at::Tensor& pixels,
                                const at::TensorOptions& compute);

class InternVitStage {
 public:
  InternVitStage(InternVitConfig config, uint32_t first_unit, uint32_t n_units, nn::ParallelContext parallel);

  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  // One step per unit. The stage outlives them.
  std::vector<nn::Step> steps(std::shared_ptr<const InternVitBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

 private:
  struct Unit {
    nn::Linear patch;
    nn::Parameter class_token, positions;  // as rows of a table
    nn::SelfAttention attention;
    nn::Norm query_norm, key_norm;
    nn::Parameter attention_scale, mlp_scale;
    nn::FeedForward mlp;
    Merger projector;
    bool trains = false;
  };
  at::Tensor layer(const Unit& unit, const InternVitBatch& batch, const at::Tensor& in) const;
  nn::Tensors run(uint32_t unit, const InternVitBatch& batch, const nn::Tensors& in) const;

  InternVitConfig config_;
  uint32_t first_unit_;
  nn::ParallelContext parallel_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
