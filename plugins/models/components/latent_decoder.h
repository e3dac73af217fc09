// DeepSeek-V3's decoder over packed sequences: latent attention, with or without a sparse indexer; dense first layers,
// then routed experts beside a shared one; one multi-token-prediction module (arXiv:2412.19437; DeepSeek-V3.2-Exp
// report).
//
//   unit 0             token table
//   units 1..layers    layers
//   unit layers + 1    with mtp: h' = eh_proj [enorm(table[next id]); hnorm(norm(hidden))], then one layer
//   last unit          final norm, head, losses
//
// Between units go hidden [N, width], the module's rows [N, width] (absent before its unit), and per-sample sums f32
// (f64) [S, 2] so far: divergence of the indexers, balance loss of the routers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "components/parameter_table.h"
#include "nn/chain.h"
#include "nn/moe.h"
#include "nn/parallel.h"
#include "nn/sparse_attention.h"
#include "nn/token_loss.h"
#include "nn/transformer_layer.h"

namespace lf::components {

// What of a model with an indexer is trained (DeepSeek-V3.2-Exp report, section 2.1).
enum class IndexerStage {
  kOff,     // attention is dense, as before the indexers came; they stay as they are
  kFrozen,  // selects, does not learn
  kWarmup,  // learns from dense attention; nothing else learns
  kSparse   // learns from the rows that it selects; the rest from the token losses
};

struct LatentDecoderConfig {
  int64_t vocabulary = 0, width = 0, intermediate = 0, layers = 0;
  nn::LatentShape attention;
  int64_t query_rank = 0;  // 0: queries straight from the rows
  double norm_eps = 1e-6, deviation = 0.02;
  nn::RotarySpec rotary;
  int64_t padding_id = -1;  // its row of the table gets no gradient from look-ups
  std::string prefix = "model.", head_name = "lm_head.weight";

  bool indexed = false;
  nn::IndexShape index;
  nn::RotaryPairs index_pairs = nn::RotaryPairs::kHalves;
  IndexerStage stage = IndexerStage::kSparse;
  double divergence_weight = 1;

  int64_t experts = 0, expert_width = 0, shared_width = 0;
  std::vector<bool> sparse_layers;  // by layer; the module's has experts where there are any
  nn::GroupRouting routing;
  double balance_weight = 0;  // of the sequence-wise balance loss, equations 17 to 20
  double bias_rate = 0;       // step of the routers' bias against the load; 0: it stays

  bool mtp = false, trains_mtp = false;
  double mtp_weight = 0.3;

  int64_t n_units() const { return layers + (mtp ? 3 : 2); }
  bool is_mtp(int64_t unit) const { return mtp && unit == layers + 1; }
  bool is_sparse(int64_t layer) const {
    return experts > 0 && (layer >= layers || sparse_layers[static_cast<size_t>(layer)]);
  }
  bool warms_up() const { return indexed && stage == IndexerStage::kWarmup; }
  bool uses_index() const { return indexed && stage != IndexerStage::kOff; }
  bool learns_index() const { return uses_index() && stage != IndexerStage::kFrozen; }
};

ParameterTable parameter_table(const LatentDecoderConfig& config);

// What the last unit found; filled when it runs. Sums and counts of this micro-batch.
struct LatentDecoderResult {
  double loss_sum = 0;      // of what is trained, as LossShares weighs it
  int64_t loss_weight = 0;  // supervised rows
  double token_sum = 0, mtp_sum = 0, divergence_sum = 0, balance_sum = 0;
  int64_t mtp_count = 0;
  at::Tensor logits, token_loss, mtp_logits, mtp_token_loss;  // f32 [N, V], [N]; if asked for
};

// Losses are means over counts of their own, and the host divides the whole sum by the supervised rows: so each other
// sum is multiplied by (all supervised rows of the step) / (all of its own count).
struct LossShares {
  double mtp = 0, rows = 0;
};

struct RouterOutput {
  at::Tensor expert, weight;  // i64, f32 [N, k]
};

struct LatentDecoderBatch {
  at::Tensor ids, targets;            // i64 [N]
  at::Tensor next_ids, next_targets;  // of the module: the id at the next row and the target of it, within the sequence
  nn::Segments segments;
  nn::RotaryTable rotary;
  LossShares shares;
  std::optional<double> gradient_scale;
  bool outputs = false;
  std::shared_ptr<LatentDecoderResult> result;
  std::shared_ptr<std::vector<RouterOutput>> routers;  // by layer; the module's last; filled where asked for outputs
  // As routers: scores f32 and selected bool [N, rows of the longest segment], by rows of the own segment.
  std::shared_ptr<std::vector<nn::Selection>> selections;
};

// ids, targets i64 [N]: positions count from each segment's first row.
LatentDecoderBatch latent_decoder_batch(const LatentDecoderConfig& config, const at::Tensor& ids,
                                        const at::Tensor& targets, nn::Segments segments);
// How many rows have a target one further on: what the module's loss is a mean over.
int64_t next_target_count(const LatentDecoderBatch& batch);

class LatentDecoderStage {
 public:
  LatentDecoderStage(LatentDecoderConfig config, uint32_t first_unit, uint32_t n_units, nn::ParallelContext parallel);

  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  std::vector<nn::Step> steps(std::shared_ptr<const LatentDecoderBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

  struct Indexer {
    nn::Linear query, key;
    nn::Norm key_norm;
    nn::Parameter weights;
  };
  struct Layer {
    nn::Norm norm;
    nn::Linear down;  // queries' latents (or queries), keys' and values' latents, shared key
    nn::Norm query_norm;
    nn::Linear query;
    nn::Norm latent_norm;
    nn::Parameter kv_b;
    Indexer indexer;
    nn::Linear out;
    nn::FeedForward mlp;  // dense, or the shared expert
    nn::Parameter router, router_bias;
    nn::Experts experts;
  };

 private:
  struct Unit {
    nn::Parameter table, head;
    nn::Norm norm, token_norm, hidden_norm, mtp_norm;
    nn::Linear join;
    Layer layer;
    bool trains = false;
  };
  struct Flow {
    at::Tensor hidden, mtp, sums;
  };
  at::Tensor attention(const Layer& layer, int64_t number, const LatentDecoderBatch& batch, const at::Tensor& x,
                       at::Tensor* divergence) const;
  at::Tensor feed_forward(const Layer& layer, int64_t number, const LatentDecoderBatch& batch, const at::Tensor& x,
                          at::Tensor* balance) const;
  at::Tensor run_layer(const Layer& layer, int64_t number, const LatentDecoderBatch& batch, const at::Tensor& x,
                       at::Tensor* sums) const;
  nn::Tensors end(const Unit& unit, const LatentDecoderBatch& batch, const Flow& in) const;
  nn::Tensors run(const Unit& unit, int64_t number, const LatentDecoderBatch& batch, const nn::Tensors& in) const;

  LatentDecoderConfig config_;
  uint32_t first_unit_;
  nn::ParallelContext parallel_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
