#include "family/batch_columns.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "family/tensor_bridge.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::family {

at::Tensor column(const lf_batch& batch, std::string_view name, at::ScalarType type, int64_t ndim) {
  for (uint32_t i = 0; i < batch.n_columns; ++i) {
    if (sdk::view(batch.columns[i].name) != name) continue;
    at::Tensor tensor = borrow(batch.columns[i].tensor);
    if (!tensor.defined()) return {};
    if (tensor.scalar_type() != type || tensor.dim() != ndim)
      throw sdk::Failure(
          LF_E_INVALID, fmt::format("column \"{}\": expected {} with {} axes, got {} with {}", name, at::toString(type),
                                    ndim, at::toString(tensor.scalar_type()), tensor.dim()));
    return tensor;
  }
  return {};
}

at::Tensor needed(const lf_batch& batch, std::string_view name, at::ScalarType type, int64_t ndim) {
  at::Tensor tensor = column(batch, name, type, ndim);
  if (!tensor.defined())
    throw sdk::Failure(LF_E_INVALID, fmt::format("the micro-batch has no column \"{}\"; collate makes it", name));
  return tensor;
}

std::vector<int64_t> values(const at::Tensor& integers) {
  const at::Tensor plain = integers.contiguous();
  return {plain.const_data_ptr<int64_t>(), plain.const_data_ptr<int64_t>() + plain.numel()};
}

}  // namespace lf::family
