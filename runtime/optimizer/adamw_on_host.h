// AdamW in the host's memory: one fused pass over each block, by any number of threads, always the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/adamw_memory.h"
#include "optimizer/flat_memory.h"

namespace lf {

class AdamWOnHost final : public AdamWMemory {
 public:
  // The buffers are borrowed; compute may be null. Moments are its own, zero at first. Throws lf::Error(kUnavailable)
  // where there is no memory for them.
  AdamWOnHost(std::span<float> master, std::span<const float> gradients, uint16_t* compute_bf16,
              std::vector<ParameterRange> parameters, int threads);

  double gradient_norm(std::span<const uint8_t> counts) override;
  std::optional<size_t> first_not_finite(std::span<const uint8_t> counts) override;
  void update(std::span<const ParameterUpdate> updates) override;
  FloatRange first_moment(size_t parameter) override { return range_of(m_, parameter); }
  FloatRange second_moment(size_t parameter) override { return range_of(v_, parameter); }
  uint64_t bytes() const override { return m_.bytes() + v_.bytes(); }

 private:
  struct Block {
    size_t parameter;
    int64_t begin, end;
  };
  FloatRange range_of(const FlatMemory& moment, size_t parameter) const;

  float* master_;
  const float* gradients_;
  uint16_t* compute_;
  std::vector<ParameterRange> parameters_;
  int threads_;
  FlatMemory m_, v_;
  std::vector<Block> blocks_;
  std::vector<double> square_sums_;  // per block
};

}  // namespace lf
