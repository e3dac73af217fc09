#include "nn/chain.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace lf::nn {
namespace {

bool requires_grad(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

at::Tensor leaf(const at::Tensor& tensor, bool needs_gradient) {
  if (!tensor.defined()) return tensor;
  at::Tensor detached = tensor.detach();
  if (needs_gradient) detached.requires_grad_(true);
  return detached;
}

}  // namespace

Chain::Chain(std::vector<Step> steps, Notify notify, bool keep_graph)
    : steps_(std::move(steps)), notify_(std::move(notify)), keep_graph_(keep_graph) {}

Tensors Chain::forward(const Tensors& in, const std::vector<bool>& in_needs_gradient) {
  TORCH_INTERNAL_ASSERT(in.size() == in_needs_gradient.size() && !steps_.empty());
  size_t edges = 0;
  for (const Step& step : steps_) edges += step.edges_in;
  carried_in_ = in.size() - edges;
  Tensors carried;
  std::vector<bool> carried_needs;
  for (size_t i = 0; i < carried_in_; ++i) {
    carried.push_back(in[i]);
    carried_needs.push_back(keep_graph_ && in_needs_gradient[i]);
  }
  Tensors leaving;
  ran_.assign(steps_.size(), {});
  size_t next_edge = carried_in_;
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    Ran& ran = ran_[s];
    ran.carried_in = carried.size();
    notify_(step.unit, UnitEvent::kNeedForward);
    for (size_t i = 0; i < carried.size(); ++i) ran.in.push_back(leaf(carried[i], carried_needs[i]));
    for (size_t i = 0; i < step.edges_in; ++i, ++next_edge)
      ran.in.push_back(leaf(in[next_edge], keep_graph_ && in_needs_gradient[next_edge]));
    ran.live = keep_graph_ && (step.trains || std::any_of(ran.in.begin(), ran.in.end(), requires_grad));

    Tensors out;
    {
      at::AutoGradMode mode(ran.live && step.recompute != Recompute::kWhole);
      out = step.run(ran.in);
    }
    carried_out_ = out.size() - step.edges_out;
    carried.clear();
    carried_needs.clear();
    for (size_t i = 0; i < out.size(); ++i) {
      const at::Tensor bare = out[i].defined() ? out[i].detach() : out[i];
      if (i >= carried_out_) {
        leaving.push_back(bare);
        continue;
      }
      carried.push_back(bare);
      // A recomputed unit has no graph to ask: what is live upstream of a float is live here.
      carried_needs.push_back(step.recompute == Recompute::kWhole
                                  ? ran.live && bare.defined() && at::isFloatingType(bare.scalar_type())
                                  : requires_grad(out[i]));
    }
    if (!ran.live) ran.in.clear();
    if (ran.live && step.recompute != Recompute::kWhole) ran.out = std::move(out);
    notify_(step.unit, UnitEvent::kDoneForward);
  }
  Tensors result = std::move(carried);
  result.insert(result.end(), leaving.begin(), leaving.end());
  return result;
}

Tensors Chain::backward(const Tensors& out_gradients) {
  size_t edges_in = 0;
  for (const Step& step : steps_) edges_in += step.edges_in;
  Tensors carried(out_gradients.begin(), out_gradients.begin() + static_cast<std::ptrdiff_t>(carried_out_));
  Tensors in_gradients(carried_in_ + edges_in);
  size_t next_leaving = out_gradients.size(), next_edge = in_gradients.size();
  for (size_t s = steps_.size(); s-- > 0;) {
    const Step& step = steps_[s];
    Ran ran = std::exchange(ran_[s], {});
    Tensors gradients = std::move(carried);
    carried.clear();
    next_leaving -= step.edges_out;
    for (size_t i = 0; i < step.edges_out; ++i) gradients.push_back(out_gradients[next_leaving + i]);
    next_edge -= step.edges_in;
    if (!ran.live || std::none_of(gradients.begin(), gradients.end(), [](const auto& g) { return g.defined(); })) {
      carried.resize(ran.carried_in);
      continue;
    }

    notify_(step.unit, UnitEvent::kNeedBackward);
    if (step.recompute == Recompute::kWhole) {
      at::AutoGradMode mode(true);
      ran.out = step.run(ran.in);
    }
    torch::autograd::variable_list roots, seeds;
    for (size_t i = 0; i < ran.out.size(); ++i) {
      if (!requires_grad(ran.out[i]) || !gradients[i].defined()) continue;
      roots.push_back(std::move(ran.out[i]));
      seeds.push_back(std::move(gradients[i]));
    }
    ran.out.clear();
    if (!roots.empty()) torch::autograd::backward(roots, seeds);
    roots.clear();
    seeds.clear();
    for (size_t i = 0; i < ran.carried_in; ++i)
      carried.push_back(ran.in[i].defined() ? ran.in[i].grad() : at::Tensor());
    for (size_t i = 0; i < step.edges_in; ++i) {
      const at::Tensor& edge = ran.in[ran.carried_in + i];
      if (edge.defined()) in_gradients[next_edge + i] = edge.grad();
    }
    notify_(step.unit, UnitEvent::kDoneBackward);
    notify_(step.unit, UnitEvent::kDoneWeights);
  }
  std::copy(carried.begin(), carried.end(), in_gradients.begin());
  return in_gradients;
}

}  // namespace lf::nn
