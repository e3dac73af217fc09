// Tensors that collate hands over by name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "lf/plugin_api/model.h"

namespace lf::family {

// Tensors that a caller is given or that go with it, with names that live for ever.
class Columns {
 public:
  Columns() = default;
  Columns(Columns&&) noexcept = default;
  ~Columns();
  void add(std::string_view name, lf_tensor tensor);
  std::span<const lf_named_tensor> view() const { return columns_; }
  // Hands the tensors over. Throws LF_E_INVALID where there is no room for all.
  uint32_t give(std::span<lf_named_tensor> out);

 private:
  std::vector<lf_named_tensor> columns_;
};

lf_tensor integer_column(std::vector<int64_t> values, std::initializer_list<int64_t> shape);
lf_tensor float_column(std::vector<float> values, std::initializer_list<int64_t> shape);
// f32 [rows, columns], not cleared: pixels are most of a micro-batch and are all written.
lf_tensor uninitialised_floats(int64_t rows, int64_t columns);

}  // namespace lf::family
