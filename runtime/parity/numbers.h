// Named arrays of a case: what a run made, and what it is compared with.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lf/plugin_api/tensor.h"
#include "model/parameter_store.h"

namespace lf {

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Arrays = std::map<std::string, Array>;

// All tensors of a safetensors file, floating ones and counts alike, as f32.
Arrays read_arrays(const std::filesystem::path& file);
// Complete under its name or not there.
void write_arrays(const Arrays& arrays, const std::filesystem::path& file);

// Gradients by the names and in the layout of the model's files; parameters of units without gradient are left out.
Arrays gradients_by_file_tensor(const ParameterStore& store, const std::vector<uint8_t>& units_with_gradient);

// A floating tensor of any strides, as f32.
Array to_array(const lf_tensor& tensor);

}  // namespace lf
