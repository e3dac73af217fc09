// A causal language decoder over packed sequences: dense or with experts, tied head or its own, rows from other
// components at places of the sequence, deep-stack rows after the first layers. Covers Llama, InternLM2, Qwen2 and
// Qwen3 text models.
//
//   unit 0             token table; rows of edge "visual" at their places
//   units 1..layers    layers; after layer k the rows of edge "deepstack.k" are added at the same places
//   unit layers + 1    final norm, head, loss
// Between units go hidden [N, width] and, where the balance loss is on, routing statistics f32 [S, 2E] summed so far.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "components/parameter_table.h"
#include "nn/chain.h"
#include "nn/parallel.h"
#include "nn/token_loss.h"
#include "nn/transformer_layer.h"

namespace lf::components {

// Per sample: each segment's own statistics, weighted by its supervised rows, so that no layout can change it.
// Per batch: all rows of the micro-batch pooled, as transformers does.
enum class BalanceLoss { kNone, kPerSample, kPerBatch };

struct ExpertsConfig {
  int64_t count = 0, per_token = 0, width = 0;
  bool normalise = true;  // the weights of a row's experts add up to 1
  // How files hold them: all in one, [E, in, out] (Qwen3-VL-MoE), or expert by expert, [out, in] (Qwen3-MoE).
  bool one_by_one = false;
  std::vector<bool> sparse_layers;
  BalanceLoss balance = BalanceLoss::kNone;
  double balance_coefficient = 0;
};

// What files call a decoder's tensors. InternLM2 also keeps q, k and v in one, grouped by key/value head.
enum class DecoderNaming { kTransformers, kInternLm2 };

struct LanguageDecoderConfig {
  int64_t vocabulary = 0, width = 0, intermediate = 0, layers = 0;
  int64_t heads = 1, kv_heads = 1, head_size = 0;
  double norm_eps = 1e-6, deviation = 0.02;
  nn::RotarySpec rotary;
  bool qkv_bias = false, head_norms = false, tied = false;
  int64_t padding_id = -1;  // its row of the table gets no gradient from look-ups
  bool takes_rows = true;   // edge "visual"
  int64_t deepstack = 0;    // edges "deepstack.0" and on
  ExpertsConfig experts;    // count 0: dense
  DecoderNaming naming = DecoderNaming::kTransformers;
  std::string prefix;     // "model."
  std::string head_name;  // "lm_head.weight"

  int64_t n_units() const { return layers + 2; }
  bool is_sparse(int64_t layer) const { return experts.count > 0 && experts.sparse_layers[static_cast<size_t>(layer)]; }
  int64_t sparse_count() const;
  bool carries_statistics() const { return experts.balance != BalanceLoss::kNone && sparse_count() > 0; }
};

ParameterTable parameter_table(const LanguageDecoderConfig& config);

// What the last unit found; filled when it runs.
struct DecoderResult {
  double loss_sum = 0;            // with the balance loss
  double balance_sum = 0;         // balance loss times weight, without its coefficient
  double loss_weight = 0;         // supervised rows, or the sum of their weights
  at::Tensor logits, token_loss;  // f32 [N, V], [N]; if asked for
};

// The sequences of one micro-batch.
struct DecoderBatch {
  at::Tensor ids, targets;  // i64 [N]
  nn::Segments segments;
  nn::RotaryTable rotary;
  at::Tensor weights;  // f32 [N]: of each row's loss; undefined: 1
  at::Tensor places;   // i64 [R]: where rows of other components stand; undefined: none
  std::optional<double> gradient_scale;
  bool outputs = false;
  std::shared_ptr<DecoderResult> result;
};

// Columns on the stage's device. positions i64 [axes of the rotary, N].
DecoderBatch decoder_batch(const LanguageDecoderConfig& config, const at::Tensor& ids, const at::Tensor& targets,
                           const at::Tensor& positions, nn::Segments segments, const at::Tensor& places);

class LanguageStage {
 public:
  LanguageStage(LanguageDecoderConfig config, uint32_t first_unit, uint32_t n_units, nn::ParallelContext parallel);

  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  std::vector<nn::Step> steps(std::shared_ptr<const DecoderBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

 private:
  struct Unit {
    nn::Parameter table;
    nn::SelfAttention attention;
    nn::FeedForward mlp;
    nn::SparseFeedForward sparse;
    nn::Norm norm;
    nn::Parameter head;
    bool trains = false;
  };
  nn::Tensors begin(const Unit& unit, const DecoderBatch& batch, const nn::Tensors& in) const;
  nn::Tensors layer(const Unit& unit, int64_t number, const DecoderBatch& batch, const nn::Tensors& in) const;
  nn::Tensors end(const Unit& unit, const DecoderBatch& batch, const nn::Tensors& in) const;

  LanguageDecoderConfig config_;
  uint32_t first_unit_;
  nn::ParallelContext parallel_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
