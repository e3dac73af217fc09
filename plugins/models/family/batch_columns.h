// Columns of a micro-batch by name.
#pragma once

#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lf/plugin_api/model.h"

namespace lf::family {

// Borrowed; undefined where it is absent. Throws sdk::Failure(LF_E_INVALID) for another type or number of axes.
at::Tensor column(const lf_batch& batch, std::string_view name, at::ScalarType type, int64_t ndim);
// Throws where it is absent, too.
at::Tensor needed(const lf_batch& batch, std::string_view name, at::ScalarType type, int64_t ndim);

std::vector<int64_t> values(const at::Tensor& integers);

}  // namespace lf::family
