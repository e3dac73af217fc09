#include "nn/layer_scale.h"

#include <ATen/ATen.h>

namespace lf::nn {

at::Tensor scaled_add(const at::Tensor& x, const Parameter& scale, const at::Tensor& residual) {
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = at::addcmul(residual, x, scale.value);
  }
  const bool wants = x.requires_grad();
  return record(y, {.inputs = {x, residual},
                    .trains = scale.trained(),
                    .saved = {scale.trained() ? x : at::Tensor()},
                    .backward = [scale, wants](const Tensors& dy, const Tensors& saved) -> Tensors {
                      if (scale.trained())
                        scale.add_gradient((dy[0] * saved[0]).sum(0, false, scale.gradient.scalar_type()));
                      return {wants ? dy[0] * scale.value : at::Tensor(), dy[0]};
                    }});
}

}  // namespace lf::nn
