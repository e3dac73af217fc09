#include "nn/record.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace lf::nn {
namespace {

struct BlockNode final : torch::autograd::Node {
  std::vector<torch::autograd::SavedVariable> saved;
  Backward backward;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    Tensors unpacked;
    unpacked.reserve(saved.size());
    for (const auto& variable : saved) unpacked.push_back(variable.unpack());
    return backward(gradients, unpacked);
  }
  void release_variables() override {
    saved.clear();
    backward = nullptr;
  }
  std::string name() const override { return "lf::nn::BlockNode"; }
};

}  // namespace

bool records(const Node& node) {
  return at::GradMode::is_enabled() &&
         (node.trains || std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [](const at::Tensor& t) { return t.defined() && t.requires_grad(); }));
}

Tensors record(Tensors outputs, Node node) {
  if (!records(node)) return outputs;
  auto made = std::shared_ptr<BlockNode>(new BlockNode(), torch::autograd::deleteNode);
  for (const at::Tensor& tensor : node.saved)
    made->saved.emplace_back(tensor.defined() ? tensor.detach() : tensor, /*is_output=*/false);
  made->backward = std::move(node.backward);
  torch::autograd::edge_list edges;
  for (const at::Tensor& input : node.inputs)
    edges.push_back(input.defined() && input.requires_grad() ? torch::autograd::impl::gradient_edge(input)
                                                             : torch::autograd::Edge());
  made->set_next_edges(std::move(edges));
  torch::autograd::set_history(outputs, made);
  return outputs;
}

at::Tensor record(const at::Tensor& output, Node node) { return record(Tensors{output}, std::move(node))[0]; }

}  // namespace lf::nn
