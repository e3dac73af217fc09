#include "nn/embedding.h"

#include <ATen/ATen.h>

#include "nn/adapter.h"
#include "nn/cpu/ops.h"

namespace lf::nn {
namespace {

// table_gradient[ids[i]] += rows[i], in the order of i.
void scatter_add(const at::Tensor& gradient, const at::Tensor& ids, const at::Tensor& rows) {
  if (cpu::fits(rows) && gradient.is_contiguous() && gradient.scalar_type() == at::kFloat)
    return cpu::add_rows(gradient, ids, rows);
  at::Tensor(gradient).index_add_(0, ids, rows.to(gradient.scalar_type()));
}

}  // namespace

at::Tensor embed(const at::Tensor& ids, const Parameter& table, const at::Tensor& rows, const at::Tensor& places,
                 int64_t padding_id) {
  at::Tensor looked_up;
  {
    at::NoGradGuard no_grad;
    looked_up = table.value.index_select(0, ids);
    if (table.adapters != nullptr) {
      const at::Tensor added = adapter_table_rows(*table.adapters, ids);
      looked_up = added.add_(looked_up).to(looked_up.scalar_type());
    }
    if (rows.defined()) looked_up.index_copy_(0, places, rows.to(looked_up.scalar_type()));
  }
  const bool wants = rows.defined() && rows.requires_grad();
  return record(looked_up,
                {.inputs = {rows},
                 .trains = table.trained() || adapters_trained(table),
                 .saved = {},
                 .backward = [table, ids, places, padding_id, wants](const Tensors& dy, const Tensors&) -> Tensors {
                   at::Tensor kept = at::ones_like(ids, at::kBool);
                   if (places.defined()) kept.index_fill_(0, places, false);
                   if (adapters_trained(table)) {
                     const at::Tensor which = kept.nonzero().flatten();
                     add_adapter_table_gradients(*table.adapters, ids.index_select(0, which),
                                                 dy[0].index_select(0, which), padding_id);
                   }
                   if (table.trained()) {
                     if (padding_id >= 0) kept.logical_and_(ids != padding_id);
                     const at::Tensor which = kept.nonzero().flatten();
                     scatter_add(table.gradient, ids.index_select(0, which), dy[0].index_select(0, which));
                   }
                   return {wants ? dy[0].index_select(0, places) : at::Tensor()};
                 }});
}

at::Tensor add_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& places) {
  at::Tensor sum;
  {
    at::NoGradGuard no_grad;
    sum = x.index_add(0, places, rows.to(x.scalar_type()));
  }
  return record(sum, {.inputs = {x, rows},
                      .saved = {},
                      .backward = [places, wants = rows.requires_grad()](const Tensors& dy, const Tensors&) -> Tensors {
                        return {dy[0], wants ? dy[0].index_select(0, places) : at::Tensor()};
                      }});
}

at::Tensor permute_rows(const at::Tensor& x, const at::Tensor& order, const at::Tensor& inverse) {
  at::Tensor permuted;
  {
    at::NoGradGuard no_grad;
    permuted = x.index_select(0, order);
  }
  return record(permuted,
                {.inputs = {x}, .saved = {}, .backward = [inverse](const Tensors& dy, const Tensors&) -> Tensors {
                   return {dy[0].index_select(0, inverse)};
                 }});
}

at::Tensor select_rows(const at::Tensor& x, const at::Tensor& places) {
  at::Tensor picked;
  {
    at::NoGradGuard no_grad;
    picked = x.index_select(0, places);
  }
  return record(
      picked,
      {.inputs = {x}, .saved = {}, .backward = [places, n = x.size(0)](const Tensors& dy, const Tensors&) -> Tensors {
         return {at::zeros({n, dy[0].size(1)}, dy[0].options()).index_copy_(0, places, dy[0])};
       }});
}

at::Tensor add_interpolated(const at::Tensor& x, const Parameter& table, const at::Tensor& taps,
                            const at::Tensor& weights) {
  const auto wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor sum;
  {
    at::NoGradGuard no_grad;
    at::Tensor added = at::zeros_like(x, wide);
    for (int64_t t = 0; t < taps.size(1); ++t)
      added.add_(table.value.index_select(0, taps.select(1, t)).to(wide) * weights.select(1, t).unsqueeze(1));
    sum = x + added.to(x.scalar_type());
  }
  return record(sum, {.inputs = {x},
                      .trains = table.trained(),
                      .saved = {},
                      .backward = [table, taps, weights, wide](const Tensors& dy, const Tensors&) -> Tensors {
                        if (table.trained())
                          for (int64_t t = 0; t < taps.size(1); ++t)
                            scatter_add(table.gradient, taps.select(1, t),
                                        dy[0].to(wide) * weights.select(1, t).unsqueeze(1));
                        return {dy[0]};
                      }});
}

}  // namespace lf::nn
