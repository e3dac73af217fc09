// Rows of learned tables, and rows put into the places kept for them.
#pragma once

#include "nn/parameter.h"
#include "nn/record.h"

namespace lf::nn {

// Row ids[i] of the table [V, C] for each i, except that row `places[j]` of the result is `rows[j]` (image tokens).
// ids i64 [N]; rows [R, C], places i64 [R], ascending, or both undefined. An id at a place is not looked up and its row
// of the table gets no gradient from it. padding_id >= 0: that row of the table gets no gradient from here at all.
// The table may have adapters, which add to the rows looked up.
at::Tensor embed(const at::Tensor& ids, const Parameter& table, const at::Tensor& rows, const at::Tensor& places,
                 int64_t padding_id);

// x with rows[j] added to row places[j] (deep-stack features); places are distinct.
at::Tensor add_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& places);

// x's rows in another order: result row i is x's row order[i]. `inverse` is the inverse permutation.
at::Tensor permute_rows(const at::Tensor& x, const at::Tensor& order, const at::Tensor& inverse);

// x's rows at `places` (i64 [R], distinct) -> [R, C].
at::Tensor select_rows(const at::Tensor& x, const at::Tensor& places);

// x + sum over t of weights[:, t] · table[taps[:, t]]: a learned grid resized to each image (Qwen3-VL, InternViT).
// taps i64 [N, T], weights f32 [N, T].
at::Tensor add_interpolated(const at::Tensor& x, const Parameter& table, const at::Tensor& taps,
                            const at::Tensor& weights);

}  // namespace lf::nn
