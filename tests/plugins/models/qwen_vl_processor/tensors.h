// Named tensors that own their values, and reading columns back.
#pragma once

#include <algorithm>
#include <deque>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "lf/plugin_sdk/tensor.hpp"

namespace lf::test {

class NamedTensors {
 public:
  template <typename T>
  void add(const std::string& name, std::vector<T> values, std::vector<int64_t> shape, int32_t dtype) {
    names_.push_back(name);
    auto column = sdk::with_header<lf_named_tensor>();
    column.name = sdk::str(names_.back());
    column.tensor = sdk::give(std::move(values), dtype, shape);
    tensors_.push_back(column);
  }
  void add_integers(const std::string& name, std::vector<int64_t> values, std::vector<int64_t> shape = {}) {
    if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
    add(name, std::move(values), std::move(shape), LF_DTYPE_I64);
  }
  void add_floats(const std::string& name, std::vector<float> values, std::vector<int64_t> shape) {
    add(name, std::move(values), std::move(shape), LF_DTYPE_F32);
  }
  NamedTensors() = default;
  NamedTensors(const NamedTensors&) = delete;
  ~NamedTensors() {
    for (lf_named_tensor& one : tensors_) sdk::release(one.tensor);
  }
  std::span<const lf_named_tensor> view() const { return tensors_; }
  void drop(const std::string& name) {
    for (auto& one : tensors_)
      if (sdk::view(one.name) == name) sdk::release(one.tensor);
    std::erase_if(tensors_, [&](const lf_named_tensor& one) { return sdk::view(one.name) == name; });
  }

 private:
  std::deque<std::string> names_;
  std::vector<lf_named_tensor> tensors_;
};

inline const lf_tensor* find(std::span<const lf_named_tensor> columns, std::string_view name) {
  for (const lf_named_tensor& column : columns)
    if (sdk::view(column.name) == name) return &column.tensor;
  return nullptr;
}
inline std::vector<int64_t> integers(std::span<const lf_named_tensor> columns, std::string_view name) {
  const lf_tensor* tensor = find(columns, name);
  if (tensor == nullptr || tensor->dtype != LF_DTYPE_I64) throw std::runtime_error("no integers " + std::string(name));
  const auto* data = static_cast<const int64_t*>(tensor->data);
  return {data, data + sdk::element_count(*tensor)};
}
inline std::vector<float> floats(std::span<const lf_named_tensor> columns, std::string_view name) {
  const lf_tensor* tensor = find(columns, name);
  if (tensor == nullptr || tensor->dtype != LF_DTYPE_F32) throw std::runtime_error("no floats " + std::string(name));
  const auto* data = static_cast<const float*>(tensor->data);
  return {data, data + sdk::element_count(*tensor)};
}

}  // namespace lf::test
