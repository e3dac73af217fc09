#include "components/diffusion_batch.h"

#include <ATen/ATen.h>

#include "nn/flow_loss.h"

namespace lf::components {

JointRows joint_rows(const DiffusionBatch& batch) {
  JointRows joint;
  std::vector<int64_t> text, image;
  for (size_t s = 0; s + 1 < batch.text_starts.size(); ++s) {
    int64_t row = joint.segments.rows();
    for (int64_t i = batch.text_starts[s]; i < batch.text_starts[s + 1]; ++i) text.push_back(row++);
    for (int64_t i = batch.image_starts[s]; i < batch.image_starts[s + 1]; ++i) image.push_back(row++);
    joint.segments.starts.push_back(row);
  }
  joint.text = at::tensor(text, at::kLong).to(batch.latents.device());
  joint.image = at::tensor(image, at::kLong).to(batch.latents.device());
  return joint;
}

at::Tensor finish(const DiffusionBatch& batch, const at::Tensor& prediction) {
  const nn::FlowLoss loss = nn::flow_loss(prediction, batch.target, batch.weight);
  DiffusionResult& result = *batch.result;
  result.loss_sum = loss.sum.item<double>();
  if (batch.outputs) {
    result.prediction = prediction.detach().to(batch.target.scalar_type());
    const at::Tensor shares = loss.rows * batch.error_share;
    result.sample_error = at::zeros({batch.samples()}, shares.options());
    for (int64_t s = 0; s < batch.samples(); ++s) {
      const auto at = static_cast<size_t>(s);
      result.sample_error[s] = shares.slice(0, batch.wanted_starts[at], batch.wanted_starts[at + 1]).sum();
    }
  }
  return loss.sum;
}

}  // namespace lf::components
