#include "nn/adapter.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "nn/cpu/ops.h"
#include "nn/cpu/threads.h"
#include "nn/matmul.h"
#include "nn/precision.h"

namespace lf::nn {
namespace {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): its output function.
uint64_t mixed(uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

at::Tensor mask_of(const Adapters& adapters, const Adapter& adapter, int64_t rows, const at::Tensor& like) {
  const uint64_t key = mixed(adapters.draws->key ^ mixed(adapter.id));
  return dropout_mask(key, rows, adapter.down.value.size(1), adapter.dropout).to(like.device());
}

// drop(x), wide.
at::Tensor dropped(const Adapters& adapters, const Adapter& adapter, const at::Tensor& x) {
  const at::Tensor value = x.to(wide(x));
  return adapter.dropout > 0 ? value * mask_of(adapters, adapter, x.size(0), x) : value;
}

// drop(x) Aᵀ, wide.
at::Tensor narrow_rows(const Adapters& adapters, const Adapter& adapter, const at::Tensor& x) {
  if (adapter.dropout == 0) return product_f32(x, adapter.down.value, Second::kTransposed);
  const at::Tensor input = dropped(adapters, adapter, x);
  return at::mm(input, adapter.down.value.to(input.scalar_type()).t());
}

// The gradient at drop(x) Aᵀ, wide [N, r].
at::Tensor narrow_gradient(const Adapter& adapter, const at::Tensor& dy) {
  const at::Tensor own = dy.narrow(1, adapter.first_column, adapter.up.value.size(0));
  return product_f32(own, adapter.up.value, Second::kPlain).mul_(adapter.scale);
}

}  // namespace

bool Adapters::trained() const {
  return std::any_of(each.begin(), each.end(),
                     [](const Adapter& adapter) { return adapter.down.trained() || adapter.up.trained(); });
}

at::Tensor adapter_rows(const Adapters& adapters, const at::Tensor& x, int64_t columns) {
  at::Tensor sum = at::zeros({x.size(0), columns}, x.options().dtype(wide(x)));
  for (const Adapter& adapter : adapters.each) {
    const at::Tensor rows = narrow_rows(adapters, adapter, x);
    sum.narrow(1, adapter.first_column, adapter.up.value.size(0))
        .addmm_(rows, adapter.up.value.to(rows.scalar_type()).t(), /*beta=*/1, adapter.scale);
  }
  return sum;
}

void add_adapter_gradients(const Adapters& adapters, const at::Tensor& dy, const at::Tensor& x) {
  for (const Adapter& adapter : adapters.each) {
    if (adapter.up.trained()) {
      const at::Tensor own = dy.narrow(1, adapter.first_column, adapter.up.value.size(0)).to(wide(dy));
      adapter.up.add_gradient(at::mm(own.t(), narrow_rows(adapters, adapter, x)).mul_(adapter.scale));
    }
    if (adapter.down.trained())
      adapter.down.add_gradient(at::mm(narrow_gradient(adapter, dy).t(), dropped(adapters, adapter, x)));
  }
}

at::Tensor adapter_input_gradient(const Adapters& adapters, const at::Tensor& dy) {
  at::Tensor sum;
  for (const Adapter& adapter : adapters.each) {
    const at::Tensor rows = narrow_gradient(adapter, dy);
    at::Tensor dx = at::mm(rows, adapter.down.value.to(rows.scalar_type()));
    if (adapter.dropout > 0) dx.mul_(mask_of(adapters, adapter, dy.size(0), dy));
    sum = sum.defined() ? sum.add_(dx) : dx;
  }
  return sum;
}

bool adapters_trained(const Parameter& parameter) {
  return parameter.adapters != nullptr && parameter.adapters->trained();
}

at::Tensor adapter_table_rows(const Adapters& adapters, const at::Tensor& ids) {
  at::Tensor sum;
  for (const Adapter& adapter : adapters.each) {
    const at::Tensor rows = adapter.up.value.index_select(0, ids);
    const at::Tensor added = product_f32(rows, adapter.down.value, Second::kPlain).mul_(adapter.scale);
    sum = sum.defined() ? sum.add_(added) : added;
  }
  return sum;
}

void add_adapter_table_gradients(const Adapters& adapters, const at::Tensor& ids, const at::Tensor& dy,
                                 int64_t padding_id) {
  for (const Adapter& adapter : adapters.each) {
    if (adapter.down.trained()) {
      const at::Tensor rows = adapter.up.value.index_select(0, ids).to(wide(dy));
      adapter.down.add_gradient(at::mm(rows.t(), dy.to(wide(dy))).mul_(adapter.scale));
    }
    if (!adapter.up.trained()) continue;
    at::Tensor rows = product_f32(dy, adapter.down.value, Second::kTransposed).mul_(adapter.scale);
    if (padding_id >= 0) rows.masked_fill_((ids == padding_id).unsqueeze(1), 0);
    const at::Tensor& gradient = adapter.up.gradient;
    if (cpu::fits(rows) && gradient.is_contiguous() && gradient.scalar_type() == at::kFloat)
      cpu::add_rows(gradient, ids, rows);  // in the order of ids
    else
      at::Tensor(gradient).index_add_(0, ids, rows.to(gradient.scalar_type()));
  }
}

ChunkedAdapters::ChunkedAdapters(const Parameter& parameter, const at::Tensor& x) : adapters_(parameter.adapters) {
  if (adapters_ == nullptr) return;
  for (const Adapter& adapter : adapters_->each) {
    masks_.push_back(adapter.dropout > 0 ? mask_of(*adapters_, adapter, x.size(0), x) : at::Tensor());
    inputs_.push_back(adapter.dropout > 0 ? x.to(wide(x)) * masks_.back() : x);
    narrow_.push_back(product_f32(inputs_.back(), adapter.down.value, Second::kTransposed));
  }
}

void ChunkedAdapters::add_to(const at::Tensor& y, int64_t begin) const {
  for (size_t i = 0; i < narrow_.size(); ++i) {
    const Adapter& adapter = adapters_->each[i];
    const at::Tensor rows = narrow_[i].narrow(0, begin, y.size(0));
    y.narrow(1, adapter.first_column, adapter.up.value.size(0))
        .addmm_(rows, adapter.up.value.to(rows.scalar_type()).t(), /*beta=*/1, adapter.scale);
  }
}

at::Tensor ChunkedAdapters::backward(const at::Tensor& dy, int64_t begin) const {
  at::Tensor sum;
  for (size_t i = 0; i < narrow_.size(); ++i) {
    const Adapter& adapter = adapters_->each[i];
    const auto own = [&](const at::Tensor& rows) { return rows.narrow(0, begin, dy.size(0)); };
    if (adapter.up.trained()) {
      const at::Tensor columns = dy.narrow(1, adapter.first_column, adapter.up.value.size(0)).to(wide(dy));
      adapter.up.add_gradient(at::mm(columns.t(), own(narrow_[i])).mul_(adapter.scale));
    }
    const at::Tensor rows = narrow_gradient(adapter, dy);
    if (adapter.down.trained()) adapter.down.add_gradient(at::mm(rows.t(), own(inputs_[i]).to(rows.scalar_type())));
    at::Tensor dx = at::mm(rows, adapter.down.value.to(rows.scalar_type()));
    if (masks_[i].defined()) dx.mul_(own(masks_[i]));
    sum = sum.defined() ? sum.add_(dx) : dx;
  }
  return sum;
}

at::Tensor ExpertAdapter::down(const at::Tensor& whole, int64_t expert) const {
  const int64_t rank = whole.size(0) / n;
  return whole.narrow(0, expert * rank, rank);
}

at::Tensor ExpertAdapter::up(const at::Tensor& whole, int64_t expert) const {
  return whole.view({whole.size(0), whole.size(1) / n, n}).select(2, expert);
}

at::Tensor ExpertAdapter::rows(int64_t expert, const at::Tensor& x) const {
  const at::Tensor narrow = product_f32(x, down(only().down.value, expert), Second::kTransposed);
  return at::mm(narrow, up(only().up.value, expert).to(narrow.scalar_type()).t()).mul_(only().scale);
}

at::Tensor ExpertAdapter::input_gradient(int64_t expert, const at::Tensor& dy) const {
  const at::Tensor narrow =
      product_f32(dy, up(only().up.value, expert).contiguous(), Second::kPlain).mul_(only().scale);
  return at::mm(narrow, down(only().down.value, expert).to(narrow.scalar_type()));
}

void ExpertAdapter::add_gradients(int64_t expert, const at::Tensor& dy, const at::Tensor& x) const {
  const auto type = wide(dy);
  if (only().up.trained()) {
    const at::Tensor narrow = product_f32(x, down(only().down.value, expert), Second::kTransposed);
    up(only().up.gradient, expert).add_(at::mm(dy.to(type).t(), narrow).mul_(only().scale));
  }
  if (only().down.trained()) {
    const at::Tensor narrow =
        product_f32(dy, up(only().up.value, expert).contiguous(), Second::kPlain).mul_(only().scale);
    down(only().down.gradient, expert).add_(at::mm(narrow.t(), x.to(type)));
  }
}

at::Tensor dropout_mask(uint64_t key, int64_t rows, int64_t columns, double share) {
  at::Tensor mask = at::empty({rows, columns}, at::kFloat);
  const auto kept = static_cast<float>(1 / (1 - share));
  const auto least = static_cast<uint64_t>(share * 0x1p32);  // of 32 bits: what is below is dropped
  float* values = mask.data_ptr<float>();
  constexpr int64_t kGrain = 1 << 14;
  cpu::for_ranges((mask.numel() + 1) / 2, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const uint64_t bits = mixed(key + static_cast<uint64_t>(pair));
      values[2 * pair] = (bits & 0xFFFFFFFF) < least ? 0.0f : kept;
      if (2 * pair + 1 < mask.numel()) values[2 * pair + 1] = (bits >> 32) < least ? 0.0f : kept;
    }
  });
  return mask;
}

}  // namespace lf::nn
