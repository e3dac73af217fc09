// The action expert of PI0.5 (arXiv:2504.16054): a Gemma decoder over the noisy actions of a chunk, which see one
// another and the prefix in both directions. Each layer reads the prefix's keys and values of the same layer (edge
// "memory.k" of a prefix_decoder); norms are adaptive: scale, shift and gate come from the time of the flow
// (arXiv:2212.09748).
//
//   unit 0            actions -> rows; time -> conditioning
//   units 1..layers   layers
//   unit layers + 1   norm, map to actions, loss
// Between units go rows [A, width] and conditioning [S, width].
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "components/parameter_table.h"
#include "nn/chain.h"
#include "nn/memory_attention.h"
#include "nn/modulation.h"
#include "nn/transformer_layer.h"

namespace lf::components {

struct ActionExpertConfig {
  int64_t width = 0, intermediate = 0, layers = 0;
  int64_t heads = 1, kv_heads = 1, head_size = 0;
  int64_t columns = 0;     // of an action as the model sees it
  int64_t vocabulary = 0;  // of a head that files have and nothing uses; 0: none
  double norm_eps = 1e-6, deviation = 0.02, rope_theta = 10000;
  double min_period = 4e-3, max_period = 4;  // of the time's embedding
  std::string outer;                         // "model.": before the maps of actions and time
  std::string prefix;                        // "model.paligemma_with_expert.gemma_expert."

  int64_t n_units() const { return layers + 2; }
};

ParameterTable parameter_table(const ActionExpertConfig& config);

// What the last unit found; filled when it runs.
struct ActionResult {
  double loss_sum = 0;                // over rows that count, of the mean squared error of what counts in the row
  double loss_weight = 0;             // how many rows count
  at::Tensor velocity, element_loss;  // f32 (f64) [A, columns]; if asked for
  at::Tensor sampled;                 // f32 (f64) [A, columns]; if asked for
};

// The chunks of one micro-batch: S samples, A rows, of each sample as many as its chunk is long.
struct ActionBatch {
  at::Tensor actions, target;  // f32 (f64) [A, columns]: noisy actions, and noise minus actions
  at::Tensor time;             // f32 [S], 1 being noise
  at::Tensor counted;          // f32 (f64) [A, columns]: 1 where a value is part of the loss, 0: padding
  nn::MemoryLayout layout;
  nn::Runs runs;  // of rows: their sample
  at::TensorOptions compute;
  bool outputs = false;
  // Above 0: actions are sampled too, from `noise` [A, columns], by so many Euler steps from time 1 to 0.
  int64_t sampling_steps = 0;
  at::Tensor noise;
  std::shared_ptr<ActionResult> result;
};

class ActionExpertStage {
 public:
  ActionExpertStage(ActionExpertConfig config, uint32_t first_unit, uint32_t n_units);

  // unit counts from the stage's first. Parameters in table order.
  void bind(uint32_t unit, std::vector<nn::Parameter> parameters);
  // One step per unit. The stage outlives them. Sampling needs all units in one stage.
  std::vector<nn::Step> steps(std::shared_ptr<const ActionBatch> batch,
                              const std::vector<nn::Recompute>& recompute) const;

 private:
  struct Unit {
    nn::Linear actions, time_in, time_out;  // the first
    nn::Linear attention_modulation, qkv, out, mlp_modulation, up, down;
    nn::Linear modulation, velocity;  // the last
    bool trains = false;
  };
  nn::Tensors begin(const Unit& unit, const ActionBatch& batch, const at::Tensor& actions,
                    const at::Tensor& time) const;
  at::Tensor layer(const Unit& unit, const ActionBatch& batch, const at::Tensor& x, const at::Tensor& conditioning,
                   const at::Tensor& memory) const;
  at::Tensor velocity(const Unit& unit, const ActionBatch& batch, const nn::Tensors& in) const;
  nn::Tensors end(const Unit& unit, const ActionBatch& batch, const nn::Tensors& in) const;
  at::Tensor sample(const ActionBatch& batch, const nn::Tensors& memories) const;

  ActionExpertConfig config_;
  uint32_t first_unit_;
  std::vector<Unit> units_;
};

}  // namespace lf::components
