// Where AdamW's numbers are, and what computes on them there: all elements at once, while adamw.cpp decides by how
// much.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/float_range.h"
#include "optimizer/adamw_kernel.h"

namespace lf {

// A parameter in the flat buffers, in elements.
struct ParameterRange {
  int64_t offset = 0, elements = 0;
};

// What one step does with one parameter.
struct ParameterUpdate {
  bool wanted = false;  // else it stays as it is
  float sign_step = 0;  // > 0: see sign_update, and the scalars are not used
  AdamWScalars scalars;
  bool operator==(const ParameterUpdate&) const = default;
};

// Parameters are counted as in the list that it was made with. One thread at a time.
class AdamWMemory {
 public:
  virtual ~AdamWMemory() = default;

  // Of the gradients of the parameters that `counts` marks, summed in f64.
  virtual double gradient_norm(std::span<const uint8_t> counts) = 0;
  // The first of them whose gradient is not finite.
  virtual std::optional<size_t> first_not_finite(std::span<const uint8_t> counts) = 0;
  // Moments, master values and compute copy, as adamw_kernel.h writes it.
  virtual void update(std::span<const ParameterUpdate> updates) = 0;

  virtual FloatRange first_moment(size_t parameter) = 0;
  virtual FloatRange second_moment(size_t parameter) = 0;
  virtual uint64_t bytes() const = 0;  // of both moments
};

}  // namespace lf
