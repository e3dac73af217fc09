#include "nn/parallel.h"

#include <functional>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace lf::nn {
namespace {

using torch::autograd::variable_list;

// A node that runs `backward_` on the gradient; forward has already happened.
struct CollectiveNode : torch::autograd::Node {
  std::function<at::Tensor(const at::Tensor&)> backward_;
  variable_list apply(variable_list&& gradients) override { return {backward_(gradients[0])}; }
};

at::Tensor with_backward(at::Tensor result, const at::Tensor& input,
                         std::function<at::Tensor(const at::Tensor&)> backward) {
  if (!at::GradMode::is_enabled() || !input.requires_grad()) return result;
  auto node = std::shared_ptr<CollectiveNode>(new CollectiveNode(), torch::autograd::deleteNode);
  node->backward_ = std::move(backward);
  node->set_next_edges(torch::autograd::collect_next_edges(input));
  result = result.detach();
  torch::autograd::set_history(result, node);
  return result;
}

}  // namespace

at::Tensor gather_rows(const at::Tensor& own, at::IntArrayRef rows, const std::shared_ptr<Group>& group) {
  if (group == nullptr) return own;
  return with_backward(group->all_gather(own.detach(), rows), own,
                       [group, rows = rows.vec()](const at::Tensor& g) { return group->reduce_scatter(g, rows); });
}

at::Tensor scatter_sum(const at::Tensor& all, at::IntArrayRef rows, const std::shared_ptr<Group>& group) {
  if (group == nullptr) return all;
  return with_backward(group->reduce_scatter(all.detach(), rows), all,
                       [group, rows = rows.vec()](const at::Tensor& g) { return group->all_gather(g, rows); });
}

at::Tensor exchange_rows(const at::Tensor& rows, at::IntArrayRef send_rows, at::IntArrayRef receive_rows,
                         const std::shared_ptr<Group>& group) {
  if (group == nullptr) return rows;
  return with_backward(group->all_to_all(rows.detach(), send_rows, receive_rows), rows,
                       [group, send = send_rows.vec(), receive = receive_rows.vec()](const at::Tensor& g) {
                         return group->all_to_all(g, receive, send);
                       });
}

at::Tensor sum_stat(const at::Tensor& value, const std::shared_ptr<Group>& group) {
  if (group == nullptr) return value;
  return with_backward(group->all_reduce(value.detach()), value,
                       [group](const at::Tensor& g) { return group->all_reduce(g); });
}

}  // namespace lf::nn
