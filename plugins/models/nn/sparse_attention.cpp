#include "nn/sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"
#include "nn/cpu/sparse_ops.h"
#include "nn/precision.h"
#include "nn/sparse_blocks.h"

namespace lf::nn {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// [n, n], kNever for later rows.
at::Tensor index_scores(const at::Tensor& query, const at::Tensor& key, const at::Tensor& weight,
                        const IndexShape& index) {
  const int64_t n = query.size(0);
  const auto type = wide(query);
  const at::Tensor heads = query.to(type).view({n, index.heads, index.size});
  const at::Tensor products =
      at::relu(at::matmul(heads, key.to(type).t()) / std::sqrt(static_cast<double>(index.size)));
  const at::Tensor scores = at::matmul(weight.to(type).unsqueeze(1), products).squeeze(1);
  return scores.masked_fill(at::ones({n, n}, query.options().dtype(at::kBool)).triu(1), kNever);
}

at::Tensor selected_of(const at::Tensor& scores, int64_t top_k) {
  const int64_t n = scores.size(0);
  const at::Tensor earlier = at::ones_like(scores, at::kBool).tril();
  if (top_k <= 0 || top_k >= n) return earlier;
  // Stable: of equal scores the earlier row comes first.
  const at::Tensor order = std::get<1>(scores.sort(/*stable=*/true, -1, /*descending=*/true));
  return at::zeros_like(earlier).scatter_(1, order.narrow(1, 0, top_k), true).logical_and_(earlier);
}

bool fits(const SparseInputs& rows) {
  return cpu::fits(rows.query) && cpu::fits(rows.latent) && cpu::fits(rows.shared_key) &&
         rows.index_query.is_contiguous() && rows.index_key.is_contiguous();
}

// Rows of a segment are multiplied by what came for its divergence.
at::Tensor per_row(const at::Tensor& gradient, const Segments& segments) {
  std::vector<int64_t> lengths;
  for (size_t s = 0; s < segments.count(); ++s) lengths.push_back(segments.starts[s + 1] - segments.starts[s]);
  return gradient.to(wide(gradient))
      .repeat_interleave(at::tensor(lengths, at::kLong).to(gradient.device()))
      .unsqueeze(1);
}

// Only the indexer learns: its gradients are made in forward, and nothing else is kept or run back.
at::Tensor learnt_ahead(const SparseInputs& rows, const SparseForward& forward, const Segments& segments) {
  const auto type = rows.index_query.scalar_type();
  return record(forward.divergence, {.inputs = {rows.index_query, rows.index_key, rows.index_weight},
                                     .saved = {forward.dindex_query, forward.dindex_key, forward.dindex_weight},
                                     .backward = [segments, type](const Tensors& dy, const Tensors& saved) -> Tensors {
                                       const at::Tensor by = per_row(dy[0], segments);
                                       return {(saved[0] * by).to(type), (saved[1] * by).to(type), saved[2] * by};
                                     }});
}

}  // namespace

IndexedAttention sparse_attention(const SparseInputs& rows, const Parameter& kv_b, const LatentShape& shape,
                                  const IndexShape& index, const Segments& segments, bool wants_divergence) {
  TORCH_CHECK(segments.rows() == rows.query.size(0), "segments cover ", segments.rows(), " rows, there are ",
              rows.query.size(0));
  const Tensors of_index = {rows.index_query, rows.index_key, rows.index_weight};
  Node node, index_node;
  node.inputs = {rows.query, rows.latent, rows.shared_key};
  node.trains = kv_b.trained();
  index_node.inputs = of_index;
  const bool attends = records(node), learns = wants_divergence && records(index_node);
  const bool on_host = fits(rows);
  SparseForward forward;
  {
    at::NoGradGuard no_grad;
    const bool ahead = learns && !attends;
    forward = on_host ? cpu::sparse_attention(rows, kv_b.value, shape, index, segments, wants_divergence, ahead)
                      : sparse_forward_in_blocks(rows, kv_b.value, shape, index, segments, wants_divergence, ahead);
  }
  if (!attends) return {forward.out, learns ? learnt_ahead(rows, forward, segments) : forward.divergence};
  node.saved = {rows.query, rows.latent, rows.shared_key, forward.log_sum, forward.selected};
  if (learns) {
    node.inputs.insert(node.inputs.end(), of_index.begin(), of_index.end());
    node.saved.insert(node.saved.end(), of_index.begin(), of_index.end());
  }
  const auto type = rows.index_query.scalar_type();
  node.backward = [kv_b, shape, index, segments, learns, type, on_host, over_query = rows.gives_query_up](
                      const Tensors& dy, const Tensors& saved) -> Tensors {
    SparseForward forward;
    forward.log_sum = saved[3];
    forward.selected = saved[4];
    SparseInputs rows{saved[0], saved[1], saved[2], {}, {}, {}, over_query};
    if (learns) rows.index_query = saved[5], rows.index_key = saved[6], rows.index_weight = saved[7];
    const bool taught = learns && dy[1].defined();
    const bool trains = kv_b.trained();
    const SparseGradients made =
        on_host
            ? cpu::sparse_attention_backward(dy[0], rows, kv_b.value, forward, shape, index, segments, trains, taught)
            : sparse_backward_in_blocks(dy[0], rows, kv_b.value, forward, shape, index, segments, trains, taught);
    if (made.kv_b.defined()) kv_b.add_gradient(made.kv_b);
    Tensors gradients = {made.query, made.latent, made.shared_key};
    if (taught) {
      const at::Tensor by = per_row(dy[1], segments);
      for (const at::Tensor& gradient : {made.index_query, made.index_key})
        gradients.push_back(at::Tensor(gradient).mul_(by).to(type));
      gradients.push_back(at::Tensor(made.index_weight).mul_(by));
    } else if (learns) {
      gradients.resize(gradients.size() + 3);
    }
    return gradients;
  };
  Tensors outs = {forward.out};
  if (learns) outs.push_back(forward.divergence);
  outs = record(std::move(outs), std::move(node));
  return {outs[0], learns ? outs[1] : forward.divergence};
}

Selection select_rows(const at::Tensor& index_query, const at::Tensor& index_key, const at::Tensor& index_weight,
                      const IndexShape& index) {
  at::NoGradGuard no_grad;
  const at::Tensor scores = index_scores(index_query, index_key, index_weight, index);
  return {scores.masked_fill(scores == kNever, 0), selected_of(scores, index.top_k)};
}

}  // namespace lf::nn
