#include "nn/cross_attention.h"

#include <ATen/ATen.h>

namespace lf::nn {

at::Tensor cross_attention(const at::Tensor& queries, const at::Tensor& keys, const AttentionShape& shape,
                           const Segments& query_segments, const Segments& key_segments, const at::Tensor& key_bias) {
  TORCH_CHECK(query_segments.count() == key_segments.count() && query_segments.rows() == queries.size(0) &&
                  key_segments.rows() == keys.size(0),
              "cross attention of ", query_segments.count(), " segments, ", queries.size(0), " queries to ",
              key_segments.count(), " segments, ", keys.size(0), " keys");
  const int64_t width = shape.query_width(), key_width = shape.kv_heads * shape.head_size;
  std::vector<at::Tensor> results;
  for (size_t s = 0; s < query_segments.count(); ++s) {
    const auto heads = [&](const at::Tensor& rows) {  // [rows, h D] -> [1, h, rows, D]
      return rows.view({1, rows.size(0), -1, shape.head_size}).transpose(1, 2);
    };
    const auto shared = [&](const at::Tensor& rows) {  // each head as often as queries look at it
      return shape.heads == shape.kv_heads ? heads(rows)
                                           : heads(rows).repeat_interleave(shape.heads / shape.kv_heads, 1);
    };
    const at::Tensor q = queries.slice(0, query_segments.starts[s], query_segments.starts[s + 1]);
    const int64_t begin = key_segments.starts[s], end = key_segments.starts[s + 1];
    TORCH_CHECK(begin < end || q.size(0) == 0, "cross attention of segment ", s, " has nothing to look at");
    const auto part = [&](int64_t first) {
      return keys.slice(0, begin, end).narrow(1, first, key_width).reshape({end - begin, key_width});
    };
    const at::Tensor k = part(0), v = part(key_width);
    const at::Tensor bias = key_bias.defined()
                                ? key_bias.slice(0, begin, end).to(q.scalar_type()).expand({q.size(0), end - begin})
                                : at::Tensor();
    const at::Tensor out = at::scaled_dot_product_attention(
        heads(q), shared(k), shared(v), bias.defined() ? c10::optional<at::Tensor>(bias) : c10::nullopt);
    results.push_back(out.transpose(1, 2).reshape({q.size(0), width}));
  }
  return results.empty() ? queries.new_empty({0, width}) : at::cat(results, 0);
}

}  // namespace lf::nn
