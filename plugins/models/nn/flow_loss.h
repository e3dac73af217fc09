// Weighted squared error of a prediction, row by row: loss = sum over rows of weight · sum over columns (p - target)².
#pragma once

#include "nn/record.h"

namespace lf::nn {

struct FlowLoss {
  at::Tensor sum;   // f64 [], differentiable
  at::Tensor rows;  // f32 (f64) [N]: squared errors of each row, not weighted
};

// prediction [N, C]; target f32 (f64) [N, C]; weight f32 (f64) [N]. Errors in f32 and above.
FlowLoss flow_loss(const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& weight);

}  // namespace lf::nn
