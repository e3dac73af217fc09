// A residual branch with one learned factor per column (CaiT, arXiv:2103.17239; InternViT's ls1 and ls2).
#pragma once

#include "nn/parameter.h"
#include "nn/record.h"

namespace lf::nn {

// residual + scale ⊙ x: x, residual [N, C], scale [C]. Keeps x where scale is trained.
at::Tensor scaled_add(const at::Tensor& x, const Parameter& scale, const at::Tensor& residual);

}  // namespace lf::nn
