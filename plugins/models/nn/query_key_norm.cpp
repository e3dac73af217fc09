#include "nn/query_key_norm.h"

#include <ATen/ATen.h>

namespace lf::nn {

at::Tensor query_key_norm(const at::Tensor& qkv, const AttentionShape& shape, const Norm& query, const Norm& key) {
  TORCH_CHECK(shape.layout == QkvLayout::kByKind, "query_key_norm: queries of all heads must be neighbours");
  const int64_t queries = shape.query_width(), keys = shape.kv_heads * shape.head_size;
  const auto part = [](const at::Tensor& t, int64_t begin, int64_t n) { return t.narrow(1, begin, n).contiguous(); };
  NormStatistics of_query, of_key;
  at::Tensor y;
  {
    at::NoGradGuard no_grad;
    y = at::empty_like(qkv);
    y.narrow(1, 0, queries).copy_(normalize(part(qkv, 0, queries), query, &of_query));
    y.narrow(1, queries, keys).copy_(normalize(part(qkv, queries, keys), key, &of_key));
    y.narrow(1, queries + keys, keys).copy_(qkv.narrow(1, queries + keys, keys));
  }
  return record(
      y, {.inputs = {qkv},
          .trains = query.trained() || key.trained(),
          .saved = {qkv, of_query.inverse_deviation, of_key.inverse_deviation, of_query.mean, of_key.mean},
          .backward = [query, key, queries, keys, part](const Tensors& dy, const Tensors& saved) -> Tensors {
            const at::Tensor &g = dy[0], &x = saved[0];
            const at::Tensor dx = at::empty_like(x);
            dx.narrow(1, 0, queries)
                .copy_(normalize_backward(part(g, 0, queries), part(x, 0, queries), {saved[3], saved[1]}, query, true));
            dx.narrow(1, queries, keys)
                .copy_(normalize_backward(part(g, queries, keys), part(x, queries, keys), {saved[4], saved[2]}, key,
                                          true));
            dx.narrow(1, queries + keys, keys).copy_(g.narrow(1, queries + keys, keys));
            return {dx};
          }});
}

}  // namespace lf::nn
