#include "nn/flow_loss.h"

#include <ATen/ATen.h>

namespace lf::nn {

FlowLoss flow_loss(const at::Tensor& prediction, const at::Tensor& target, const at::Tensor& weight) {
  FlowLoss loss;
  at::Tensor error;
  {
    at::NoGradGuard no_grad;
    error = prediction.to(target.scalar_type()) - target;
    loss.rows = error.square().sum(1);
    loss.sum = (loss.rows.to(at::kDouble) * weight).sum();
  }
  loss.sum = record(loss.sum, {.inputs = {prediction},
                               .trains = false,
                               .saved = {error, weight},
                               .backward = [type = prediction.scalar_type()](const Tensors& dy, const Tensors& saved) {
                                 const at::Tensor scale = saved[1].unsqueeze(1) * (2 * dy[0].item<double>());
                                 return Tensors{(saved[0] * scale).to(type)};
                               }});
  return loss;
}

}  // namespace lf::nn
