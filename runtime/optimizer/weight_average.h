// The exponential moving average of the weights, which generates better than the weights themselves (Ho, Jain, Abbeel:
// Denoising diffusion probabilistic models, 2020, appendix B): after each update
//
//   average += (1 - decay) · (value - average)
//
// in f32, element by element, from the values that training began with; as torch.optim.swa_utils.get_ema_multi_avg_fn
// and openpi's training/utils.py. Parameters that got no gradient in a step are averaged like all others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "config/job.h"
#include "model/float_range.h"
#include "optimizer/flat_memory.h"

namespace lf {

// The decay of the update that has `updates` before it: ema.decay, or with ema.warmup at most (1 + n) / (10 + n), the
// first time 0; as diffusers' EMAModel.get_decay (training_utils.py).
double average_decay(const EmaSection& settings, uint64_t updates);

// Where an average is that is not in the host's memory, and what computes it there.
class AverageMemory {
 public:
  virtual ~AverageMemory() = default;
  virtual void update(float take) = 0;  // average += take * (value - average)
  virtual FloatRange range(int64_t offset, int64_t elements) const = 0;
  virtual uint64_t bytes() const = 0;
};

class WeightAverage {
 public:
  // `master` is borrowed for the object's life; the average starts as a copy of it. Throws lf::Error(kUnavailable) when
  // the host has no memory for it.
  WeightAverage(std::span<const float> master, int threads);
  explicit WeightAverage(std::unique_ptr<AverageMemory> elsewhere);

  // To be called after each update of master, 0 <= decay < 1. The same bits for any number of threads.
  void update(double decay);

  // Laid out as master, in the host's memory; empty where it is elsewhere. Writing through it restores a checkpoint, as
  // through a range of it, wherever that is.
  std::span<float> values() const { return average_.values(); }
  FloatRange range(int64_t offset, int64_t elements) const;
  uint64_t bytes() const { return elsewhere_ ? elsewhere_->bytes() : average_.bytes(); }

 private:
  std::span<const float> master_;
  FlatMemory average_;
  int threads_ = 1;
  std::unique_ptr<AverageMemory> elsewhere_;
};

}  // namespace lf
