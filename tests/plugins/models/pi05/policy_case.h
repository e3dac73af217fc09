// A recorded case of PI0.5 as named tensors, to be changed and lent.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"
#include "plugins/models/qwen_vl/safetensors_file.h"

namespace lf::test {

inline std::string reference(const std::string& name) {
  return std::string(LF_BUILD_DIR) + "/fixtures/references/" + name;
}

class PolicyCase {
 public:
  explicit PolicyCase(const std::string& directory, const std::string& name = "train")
      : tensors(read_safetensors(directory + "/" + name + "/inputs.safetensors")) {
    tensors.erase("sampling_steps");
  }

  // The samples of these numbers alone.
  PolicyCase only(const std::vector<size_t>& numbers) const {
    PolicyCase part = *this;
    for (auto& [name, tensor] : part.tensors) {
      if (tensor.shape.empty()) continue;
      const auto take = [&](auto& values) {
        const size_t each = values.size() / static_cast<size_t>(tensor.shape[0]);
        std::remove_reference_t<decltype(values)> taken;
        for (const size_t n : numbers)
          taken.insert(taken.end(), values.begin() + static_cast<std::ptrdiff_t>(n * each),
                       values.begin() + static_cast<std::ptrdiff_t>((n + 1) * each));
        values = std::move(taken);
      };
      take(tensor.floats);
      take(tensor.integers);
      tensor.shape[0] = static_cast<int64_t>(numbers.size());
    }
    return part;
  }

  // Borrowed from this, until it changes.
  std::vector<lf_named_tensor> lent() {
    std::vector<lf_named_tensor> fields;
    for (auto& [name, tensor] : tensors) {
      auto field = sdk::with_header<lf_named_tensor>();
      field.name = sdk::str(name);
      field.tensor = tensor.floats.empty() ? sdk::borrow(tensor.integers.data(), LF_DTYPE_I64, tensor.shape)
                                           : sdk::borrow(tensor.floats.data(), LF_DTYPE_F32, tensor.shape);
      fields.push_back(field);
    }
    return fields;
  }

  std::map<std::string, FileTensor> tensors;
};

}  // namespace lf::test
