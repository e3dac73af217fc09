#include "nn/adapter.h"

#include <algorithm>

#include <ATen/ATen.h>

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
