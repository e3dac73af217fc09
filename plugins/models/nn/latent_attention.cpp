#include "nn/latent_attention.h"

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"

namespace lf::nn {
namespace {

// Keys [N, H (P + R)] and values, [N, H W] of the expanded rows.
struct KeysAndValues {
  at::Tensor key, value;
};

KeysAndValues put_together(const at::Tensor& expanded, const at::Tensor& shared_key, const LatentShape& shape) {
  const int64_t n = expanded.size(0), h = shape.heads;
  const auto parts = expanded.view({n, h, shape.plain + shape.value}).split_with_sizes({shape.plain, shape.value}, 2);
  const at::Tensor shared = shared_key.unsqueeze(1).expand({n, h, shape.rotated});
  return {at::cat({parts[0], shared}, 2).flatten(1), parts[1].reshape({n, h * shape.value})};
}

// The way that any device can go, a segment at a time.
at::Tensor composed(const at::Tensor& query, const KeysAndValues& rows, const LatentShape& shape,
                    const Segments& segments) {
  Tensors outs;
  for (size_t s = 0; s < segments.count(); ++s) {
    const int64_t begin = segments.starts[s], length = segments.starts[s + 1] - begin;
    const auto heads = [&](const at::Tensor& t) {
      return t.narrow(0, begin, length).view({length, shape.heads, t.size(1) / shape.heads}).transpose(0, 1);
    };
    if (length == 0) continue;
    const at::Tensor out = at::scaled_dot_product_attention(heads(query).unsqueeze(0), heads(rows.key).unsqueeze(0),
                                                            heads(rows.value).unsqueeze(0), /*attn_mask=*/{},
                                                            /*dropout_p=*/0.0, /*is_causal=*/true, shape.scale);
    outs.push_back(out.squeeze(0).transpose(0, 1).flatten(1));
  }
  return outs.empty() ? at::zeros({0, shape.heads * shape.value}, query.options()) : at::cat(outs);
}

}  // namespace

at::Tensor latent_attention(const at::Tensor& query, const at::Tensor& expanded, const at::Tensor& shared_key,
                            const LatentShape& shape, const Segments& segments) {
  TORCH_CHECK(segments.rows() == query.size(0), "segments cover ", segments.rows(), " rows, there are ", query.size(0));
  if (!cpu::fits(query) || !cpu::fits(expanded))
    return composed(query, put_together(expanded, shared_key, shape), shape, segments);
  cpu::AttentionForward forward;
  {
    at::NoGradGuard no_grad;
    const KeysAndValues rows = put_together(expanded, shared_key, shape);
    forward = cpu::attention({query, rows.key, rows.value}, shape.attention(), {}, {{}, segments}, {{}, segments});
  }
  return record(forward.out,
                {.inputs = {query, expanded, shared_key},
                 .saved = {query, expanded, shared_key, forward.out, forward.log_sum},
                 .backward = [shape, segments](const Tensors& dy, const Tensors& saved) -> Tensors {
                   const at::Tensor &query = saved[0], &expanded = saved[1];
                   const KeysAndValues rows = put_together(expanded, saved[2], shape);
                   const cpu::AttentionRows gradients{at::empty_like(query), at::empty_like(rows.key),
                                                      at::empty_like(rows.value)};
                   cpu::attention_backward(dy[0], {query, rows.key, rows.value}, {saved[3], saved[4]},
                                           shape.attention(), {}, {{}, segments}, {{}, segments}, gradients);
                   const int64_t n = query.size(0), h = shape.heads;
                   const at::Tensor dkey = gradients.key.view({n, h, shape.head_size()});
                   const at::Tensor dexpanded =
                       at::cat({dkey.narrow(2, 0, shape.plain), gradients.value.view({n, h, shape.value})}, 2);
                   return {gradients.query, dexpanded.flatten(1), dkey.narrow(2, shape.plain, shape.rotated).sum(1)};
                 }});
}

}  // namespace lf::nn
