#include "weights/config_dtype.h"

#include <string_view>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lf {
namespace {

using Ordered = nlohmann::ordered_json;

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kBf16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kF64:
      return "float64";
    default:
      fail(Exit::kBug, "{}: no type that a config can name", dtype_name(dtype));
  }
}

bool names_float(const Ordered& value) {
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  return text == "float32" || text == "bfloat16" || text == "float16" || text == "float64";
}

void set_dtype(Ordered& node, const char* name, int depth) {
  if (depth > 32 || !node.is_object()) return;
  node.erase("quantization_config");
  for (auto& [key, value] : node.items()) {
    if ((key == "torch_dtype" || key == "dtype") && names_float(value)) value = name;
    set_dtype(value, name, depth + 1);
  }
}

}  // namespace

std::string config_with_dtype(const std::string& place, const std::string& config, DType dtype) {
  Ordered tree;
  try {
    tree = Ordered::parse(config);
  } catch (const Ordered::exception& error) {
    fail(Exit::kBadData, "{}: no valid JSON: {}", place, error.what());
  }
  const Ordered before = tree;
  set_dtype(tree, torch_name(dtype), 0);
  return tree == before ? config : tree.dump(2) + "\n";
}

std::string index_text(const std::vector<IndexedTensor>& tensors) {
  nlohmann::json index;
  uint64_t bytes = 0, elements = 0;
  nlohmann::json& map = index["weight_map"] = nlohmann::json::object();
  for (const IndexedTensor& tensor : tensors) {
    bytes += tensor.bytes;
    elements += tensor.elements;
    map[tensor.name] = tensor.file;
  }
  index["metadata"] = {{"total_parameters", elements}, {"total_size", bytes}};
  return index.dump(2, ' ', true) + "\n";
}

}  // namespace lf
