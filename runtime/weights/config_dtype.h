// config.json as it must read when weights are written in another type than they came in.
#pragma once

#include <string>
#include <vector>

#include "weights/dtype.h"

namespace lf {

// Sets every "torch_dtype" and "dtype" that names a floating type, at any depth, and drops "quantization_config":
// loaders take the type from there, so a stale one would round the weights in silence. Key order is kept; a text with
// nothing to change stays as it is. `place` for messages.
std::string config_with_dtype(const std::string& place, const std::string& config, DType dtype);

// model.safetensors.index.json as the reference library writes it.
struct IndexedTensor {
  std::string name, file;
  uint64_t bytes = 0, elements = 0;
};
std::string index_text(const std::vector<IndexedTensor>& tensors);

}  // namespace lf
