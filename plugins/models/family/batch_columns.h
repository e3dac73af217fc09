// Columns of a micro-batch by name.
#pragma once

#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lf/plugin_api/model.h"

namespace lf::family {

// Borrowed, in host memory; undefined where it is absent. Throws sdk::Failure(LF_E_INVALID) for another type or number
// of axes.
at::Tensor column(const lf_batch& batch, std::string_view name, at::ScalarType type, int64_t ndim);
// Throws where it is absent, too.
at::Tensor needed(const lf_batch& batch, std::string_view name, at::ScalarType type, int64_t ndim);

// On `device`; undefined where it is.
inline at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  return tensor.defined() ? tensor.to(device) : tensor;
}

std::vector<int64_t> values(const at::Tensor& integers);

}  // namespace lf::family
