// A Gemma decoder (arXiv:2403.08295) as the prefix of another one: images and text attend to one another in both
// directions, and what leaves is each layer's keys and values (PI0.5, arXiv:2504.16054: the prefix never sees what
// comes after it, so that nothing else of it is wanted).
//
//   unit 0            token table times sqrt(width); rows of edge "visual" at their places, as they are
//   units 1..layers   layers; unit k gives edge "memory.(k - 1)": keys and values before the rotation, [P, 2 K D]
// Between units goes hidden [P, width]. Of the last layer only keys and values are computed: its other parameters, and
// the final norm, are in the table because files have them, and are dead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "components/parameter_table.h"
#include "nn/chain.h"
#include "nn/transformer_layer.h"

namespace lf::components {

struct PrefixDecoderConfig {
  int64_t vocabulary = 0, width = 0, intermediate = 0, layers = 0;
  int64_t heads = 1, kv_heads = 1, head_size = 0;
  double norm_eps = 1e-6, deviation = 0.02, rope_theta = 10000;
  std::string prefix;      // "model.language_model."
  std::string table_name;  // "lm_head.weight": the tied table under the one name that files have
  std::string spare_head;  // "lm_head.weight" of files where it is a tensor apart, which nothing uses; "": none

  int64_t n_units() const { return layers + 1; }
  int64_t memory_columns() const { return 2 * kv_heads * head_size; }
};

ParameterTable parameter_table(const PrefixDecoderConfig& config);

// The prefixes of one micro-batch: P rows, T of them text, the others images.
struct PrefixBatch {
  at::Tensor ids;                         // i64 [T]
  at::Tensor text_places, visual_places;  // i64 [T], [P - T]
  nn::Segments segments;
  nn::RotaryTable rotary;
};

// On the stage's device. Positions count from each segment's first row. Throws where ids or places are out of range.
PrefixBatch prefix_batch(const PrefixDecoderConfig& config, const at::Tensor& ids, const at::Tensor& text_places,
                         const at::Tensor& visual_places, nn::Segments segments);

class PrefixStage {
 public:
  PrefixStage(PrefixDecoderConfig config, uint32_t first_unit, uint32_t n_units);

  // unit counts from the stage's first. Parameters in table order.
  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  // One step per unit. The stage outlives them.
  std::vector<nn::Step> steps(std::shared_ptr<const PrefixBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

 private:
  struct Unit {
    nn::Parameter table;
    nn::SelfAttention attention;
    nn::FeedForward mlp;
    bool trains = false;
  };
  nn::Tensors begin(const Unit& unit, const PrefixBatch& batch, const at::Tensor& visual) const;
  nn::Tensors layer(const Unit& unit, bool last, const PrefixBatch& batch, const at::Tensor& x) const;

  PrefixDecoderConfig config_;
  uint32_t first_unit_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
