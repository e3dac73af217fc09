#include "nn/attention.h"

#include <cmath>
#include <map>

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"

namespace lf::nn {
namespace {

// Views that begin where the first query, key and value do.
cpu::AttentionRows parts_of(const at::Tensor& qkv, const AttentionShape& shape) {
  if (shape.layout == QkvLayout::kByGroup) {
    const int64_t key = shape.heads / shape.kv_heads * shape.head_size, value = key + shape.head_size;
    return {qkv, qkv.narrow(1, key, qkv.size(1) - key), qkv.narrow(1, value, qkv.size(1) - value)};
  }
  const int64_t q = shape.query_width(), k = shape.kv_heads * shape.head_size;
  return {qkv.narrow(1, 0, q), qkv.narrow(1, q, k), qkv.narrow(1, q + k, k)};
}

// Rows of all segments of one length, as [segments, length].
std::vector<at::Tensor> rows_by_length(const Segments& segments, const at::Device& device) {
  std::map<int64_t, std::vector<int64_t>> starts_of;
  for (size_t i = 0; i < segments.count(); ++i)
    if (const int64_t length = segments.starts[i + 1] - segments.starts[i]; length > 0)
      starts_of[length].push_back(segments.starts[i]);
  std::vector<at::Tensor> rows;
  for (const auto& [length, starts] : starts_of)
    rows.push_back((at::tensor(starts, at::kLong).unsqueeze(1) + at::arange(length, at::kLong)).to(device));
  return rows;
}

// The way that any device can go: segments of equal length are one batch, so windows cost one call.
at::Tensor composed(const at::Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                    const RotaryTable& rotary, const Segments& segments) {
  const int64_t d = shape.head_size, groups = shape.heads / shape.kv_heads;
  at::Tensor q, k, v;
  if (shape.layout == QkvLayout::kByGroup) {
    const auto parts = qkv.view({qkv.size(0), shape.kv_heads, groups + 2, d}).split_with_sizes({groups, 1, 1}, 2);
    q = parts[0].flatten(1, 2);
    k = parts[1].squeeze(2);
    v = parts[2].squeeze(2);
  } else {
    const auto heads = qkv.view({qkv.size(0), shape.heads + 2 * shape.kv_heads, d})
                           .split_with_sizes({shape.heads, shape.kv_heads, shape.kv_heads}, 1);
    q = heads[0];
    k = heads[1];
    v = heads[2];
  }
  if (norms.present()) {
    q = norm(q.reshape({-1, d}), norms.query).view(q.sizes());
    k = norm(k.reshape({-1, d}), norms.key).view(k.sizes());
  }
  if (rotary.present()) {
    q = rotate(q, rotary);
    k = rotate(k, rotary);
  }
  if (qkv.size(0) == 0) return q.flatten(1);
  at::Tensor result = at::zeros({qkv.size(0), shape.heads, d}, qkv.options());
  for (const at::Tensor& rows : rows_by_length(segments, qkv.device())) {
    const auto batch = [&](const at::Tensor& t) {  // [rows, h, d] -> [segments, h, length, d]
      at::Tensor picked = t.index_select(0, rows.flatten()).view({rows.size(0), rows.size(1), t.size(1), d});
      return picked.transpose(1, 2);
    };
    const auto repeated = [&](const at::Tensor& t) { return groups == 1 ? t : t.repeat_interleave(groups, 1); };
    const at::Tensor out =
        at::scaled_dot_product_attention(batch(q), repeated(batch(k)), repeated(batch(v)), {}, 0.0, shape.causal);
    result = result.index_copy(0, rows.flatten(), out.transpose(1, 2).reshape({rows.numel(), shape.heads, d}));
  }
  return result.flatten(1);
}

}  // namespace

at::Tensor attention(const at::Tensor& qkv, const AttentionShape& shape, const HeadNorms& norms,
                     const RotaryTable& rotary, const Segments& segments) {
  TORCH_CHECK(segments.rows() == qkv.size(0), "segments cover ", segments.rows(), " rows, there are ", qkv.size(0));
  if (!cpu::fits(qkv)) return composed(qkv, shape, norms, rotary, segments);
  cpu::AttentionForward forward;
  {
    at::NoGradGuard no_grad;
    forward = cpu::attention(parts_of(qkv, shape), shape, norms, {rotary, segments}, {rotary, segments});
  }
  return record(forward.out, {.inputs = {qkv},
                              .trains = norms.trained(),
                              .saved = {qkv, forward.out, forward.log_sum, rotary.cosine, rotary.sine},
                              .backward = [shape, norms, segments](const Tensors& dy, const Tensors& saved) -> Tensors {
                                const at::Tensor dqkv = at::empty_like(saved[0]);
                                const RotaryTable rotary{saved[3], saved[4]};
                                cpu::attention_backward(dy[0], parts_of(saved[0], shape), {saved[1], saved[2]}, shape,
                                                        norms, {rotary, segments}, {rotary, segments},
                                                        parts_of(dqkv, shape));
                                return {dqkv};
                              }});
}

}  // namespace lf::nn
