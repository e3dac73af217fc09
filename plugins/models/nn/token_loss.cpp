#include "nn/token_loss.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "nn/adapter.h"
#include "nn/cpu/ops.h"
#include "nn/matmul.h"
#include "nn/precision.h"

namespace lf::nn {
namespace {

// Losses of a chunk [m]; with a scale, logits become their gradient times it.
at::Tensor plain_cross_entropy(at::Tensor logits, const at::Tensor& targets, const at::Tensor& weights,
                               std::optional<double> scale) {
  const at::Tensor column = targets.unsqueeze(1);
  const at::Tensor total = logits.logsumexp(1, true);
  const at::Tensor losses = (total - logits.gather(1, column)).squeeze(1);
  if (scale) {
    logits.sub_(total).exp_();
    logits.scatter_add_(1, column, at::full_like(column, -1, logits.options()));
    logits.mul_(*scale);
    if (weights.defined()) logits.mul_(weights.unsqueeze(1));
  }
  return losses;
}

struct Pass {
  at::Tensor losses;  // [M]
  at::Tensor dx;      // [M, C] with a scale
};

// One pass over the supervised rows; with a scale, adds the parameters' gradients.
Pass pass(const at::Tensor& x, const Norm& norm, const Parameter& head, const at::Tensor& targets,
          const at::Tensor& weights, std::optional<double> scale, int64_t chunk_bytes, bool wants_input_gradient) {
  NormStatistics statistics;
  const at::Tensor y = normalize(x, norm, &statistics);
  const ChunkedAdapters adapters(head, y);
  const int64_t n = x.size(0), vocabulary = head.value.size(0);
  const at::TensorOptions options = x.options().dtype(wide(x));
  const int64_t row_bytes = vocabulary * static_cast<int64_t>(options.dtype().itemsize());
  const int64_t chunk = std::clamp<int64_t>(chunk_bytes / row_bytes, 16, std::max<int64_t>(n, 16));
  Pass result{at::empty({n}, options), {}};
  const bool back = wants_input_gradient || norm.trained();
  at::Tensor dy = scale && back ? at::empty_like(y) : at::Tensor();
  const at::Tensor buffer = at::empty({std::min(chunk, n), vocabulary}, options);
  const at::Tensor rounded =
      scale && y.scalar_type() == at::kBFloat16 ? at::empty_like(buffer, at::kBFloat16) : at::Tensor();
  for (int64_t begin = 0; begin < n; begin += chunk) {
    const int64_t rows = std::min(chunk, n - begin);
    const at::Tensor some = y.narrow(0, begin, rows);
    at::Tensor logits = product_f32(some, head.value, Second::kTransposed, buffer.narrow(0, 0, rows));
    adapters.add_to(logits, begin);
    const at::Tensor wanted = targets.narrow(0, begin, rows);
    const at::Tensor weight = weights.defined() ? weights.narrow(0, begin, rows) : at::Tensor();
    at::Tensor gradient = logits;
    if (cpu::fits(logits)) {
      if (scale && y.scalar_type() == at::kBFloat16) gradient = rounded.narrow(0, 0, rows);
      result.losses.narrow(0, begin, rows)
          .copy_(cpu::cross_entropy(logits, wanted, weight, scale.value_or(0),
                                    gradient.is_same(logits) ? at::Tensor() : gradient));
    } else {
      result.losses.narrow(0, begin, rows).copy_(plain_cross_entropy(logits, wanted, weight, scale));
      gradient = logits.to(y.scalar_type());
    }
    if (!scale) continue;
    if (head.trained()) add_transposed_product(head.gradient, gradient, some);
    const at::Tensor through = adapters.backward(gradient, begin);
    if (back && through.defined())
      dy.narrow(0, begin, rows).copy_(multiply(gradient, head.value, Second::kPlain, through));
    else if (back)
      multiply_into(dy.narrow(0, begin, rows), gradient, head.value, Second::kPlain);
  }
  if (dy.defined()) result.dx = normalize_backward(dy, x, statistics, norm, wants_input_gradient);
  return result;
}

at::Tensor spread(const at::Tensor& dx, const at::Tensor& rows, int64_t n) {
  return at::zeros({n, dx.size(1)}, dx.options()).index_copy_(0, rows, dx);
}

}  // namespace

TokenLoss token_loss(const at::Tensor& x, const Norm& norm, const Parameter& head, const at::Tensor& targets,
                     const TokenLossConfig& config) {
  TokenLoss result;
  const bool wants = x.requires_grad();
  Node node;
  node.inputs = {x};
  node.trains = norm.trained() || head.trained() || adapters_trained(head);
  const bool back = records(node);
  const auto ahead = back ? config.gradient_scale : std::nullopt;
  at::NoGradGuard no_grad;
  result.rows = (targets >= 0).nonzero().flatten();
  result.count = result.rows.size(0);
  const at::Tensor picked = x.index_select(0, result.rows), picked_targets = targets.index_select(0, result.rows);
  at::Tensor weights;
  if (config.weights.defined()) weights = config.weights.index_select(0, result.rows);
  const Pass first = pass(picked, norm, head, picked_targets, weights, ahead, config.chunk_bytes, wants);
  result.each = first.losses;
  result.weight = weights.defined() ? weights.sum(at::kDouble).item<double>() : static_cast<double>(result.count);
  result.sum = weights.defined() ? (first.losses.to(at::kDouble) * weights).sum() : first.losses.sum(at::kDouble);
  if (!back) return result;

  if (ahead) {
    node.saved = {first.dx};
    node.backward = [rows = result.rows, n = x.size(0), wants, scale = *ahead](const Tensors& gradient,
                                                                               const Tensors& saved) -> Tensors {
      TORCH_CHECK(gradient[0].item<double>() == scale, "token_loss: gradients were made for a scale of ", scale,
                  ", backward came with ", gradient[0].item<double>());
      return {wants ? spread(saved[0], rows, n) : at::Tensor()};
    };
  } else {
    node.saved = {picked};
    node.backward = [norm, head, picked_targets, weights, rows = result.rows, n = x.size(0), wants,
                     bytes = config.chunk_bytes](const Tensors& gradient, const Tensors& saved) -> Tensors {
      const Pass second = pass(saved[0], norm, head, picked_targets, weights, gradient[0].item<double>(), bytes, wants);
      return {wants ? spread(second.dx, rows, n) : at::Tensor()};
    };
  }
  at::AutoGradMode grad(true);
  result.sum = record(result.sum, std::move(node));
  return result;
}

at::Tensor all_logits(const at::Tensor& x, const Norm& norm, const Parameter& head) {
  at::NoGradGuard no_grad;
  NormStatistics statistics;
  const at::Tensor y = normalize(x, norm, &statistics);
  const at::Tensor logits = product_f32(y, head.value, Second::kTransposed);
  ChunkedAdapters(head, y).add_to(logits, 0);
  return logits;
}
}  // namespace lf::nn
