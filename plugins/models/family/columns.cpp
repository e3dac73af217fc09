#include "family/columns.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "lf/plugin_sdk/tensor.hpp"

namespace lf::family {

Columns::~Columns() {
  for (lf_named_tensor& column : columns_) sdk::release(column.tensor);
}

void Columns::add(std::string_view name, lf_tensor tensor) {
  auto column = sdk::with_header<lf_named_tensor>();
  column.name = sdk::str(name);
  column.tensor = tensor;
  columns_.push_back(column);
}

uint32_t Columns::give(std::span<lf_named_tensor> out) {
  if (out.size() < columns_.size())
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("collate: expected room for {} columns, got {}", columns_.size(), out.size()));
  std::copy(columns_.begin(), columns_.end(), out.begin());
  const auto n = static_cast<uint32_t>(columns_.size());
  columns_.clear();
  return n;
}

lf_tensor integer_column(std::vector<int64_t> values, std::initializer_list<int64_t> shape) {
  return sdk::give(std::move(values), LF_DTYPE_I64, std::span<const int64_t>(shape.begin(), shape.size()));
}

lf_tensor float_column(std::vector<float> values, std::initializer_list<int64_t> shape) {
  return sdk::give(std::move(values), LF_DTYPE_F32, std::span<const int64_t>(shape.begin(), shape.size()));
}

lf_tensor uninitialised_floats(int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  auto owner = std::unique_ptr<float[]>(new float[static_cast<size_t>(rows * columns)]);
  lf_tensor tensor = sdk::borrow(owner.get(), LF_DTYPE_F32, shape);
  tensor.owner = owner.release();
  tensor.release = [](void* held) { delete[] static_cast<float*>(held); };
  return tensor;
}

}  // namespace lf::family
