// AdamW over flat buffers (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019), as torch.optim.AdamW
// computes it: a step count for each parameter, and parameters without gradient are left alone, decay included.
//
// What is decided once a step is here; the numbers themselves are in the host's memory (adamw_on_host.h) or a device's
// (adamw_on_tensors.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/job.h"
#include "optimizer/adamw_memory.h"

namespace lf {

// One trained parameter: a range of the flat buffers, in elements.
struct OptimizedParameter {
  std::string name;
  int64_t offset = 0, elements = 0;
  uint32_t unit = 0;  // as has_gradient counts them
  bool decay = true;  // gets weight decay
  double learning_rate_scale = 1;
  // > 0: moved by so much against the sign of its gradient instead, which counts in no norm (lf_param.sign_step).
  double sign_step = 0;
  std::optional<double> weight_decay = {};  // where it decays: instead of the settings'
};

// Of an optimizer in the host's memory.
struct OptimizerInputs {
  OptimizerSection settings;
  std::span<float> master;           // borrowed, as are the next two
  std::span<const float> gradients;  // of the mean loss: already divided by the global count
  uint16_t* compute_bf16 = nullptr;  // same offsets as master; null where models read master
  std::vector<OptimizedParameter> parameters;
  int threads = 1;
};

struct StepStats {
  double learning_rate = 0;
  double grad_norm = 0;  // before clipping; not finite where a gradient is not
  bool clipped = false;
  bool skipped = false;  // nothing was changed
};

// What a checkpoint holds of a parameter beside its master values. Valid as long as the optimizer.
struct OptimizerState {
  const OptimizedParameter* parameter = nullptr;
  FloatRange m, v;          // first and second moment
  int64_t* step = nullptr;  // updates that it has had
};

class AdamW {
 public:
  explicit AdamW(OptimizerInputs inputs);
  // `memory` was made with the ranges of these parameters, in their order.
  AdamW(OptimizerSection settings, std::vector<OptimizedParameter> parameters, std::unique_ptr<AdamWMemory> memory);

  // Clips by the norm of all gradients (as torch.nn.utils.clip_grad_norm_: by clip_norm / (norm + 1e-6), at most 1),
  // then updates the parameters of the units that have a gradient. `loss` and the norm decide whether the step is
  // finite: if not, it is skipped and counted, or by on_nonfinite = "stop", and at the max_skipped-th in a row, an
  // lf::Error(kBadData) that names the first parameter concerned. The same bits for any number of threads.
  StepStats step(double learning_rate, double loss, std::span<const uint8_t> has_gradient);

  // In the order of the inputs. Writing through it restores a checkpoint.
  std::vector<OptimizerState> state();
  int skipped_in_row() const { return skipped_in_row_; }
  void set_skipped_in_row(int count) { skipped_in_row_ = count; }
  uint64_t bytes() const { return memory_->bytes(); }  // of both moments

 private:
  std::vector<uint8_t> counting(std::span<const uint8_t> has_gradient) const;
  void update(double learning_rate, float clip, std::span<const uint8_t> has_gradient);
  void refuse_or_count(double loss, double norm, std::span<const uint8_t> counts);

  OptimizerSection settings_;
  std::vector<OptimizedParameter> parameters_;
  std::vector<int64_t> steps_;  // per parameter
  std::unique_ptr<AdamWMemory> memory_;
  int skipped_in_row_ = 0;
};

// Where they lie.
std::vector<ParameterRange> ranges_of(const std::vector<OptimizedParameter>& parameters);

}  // namespace lf
