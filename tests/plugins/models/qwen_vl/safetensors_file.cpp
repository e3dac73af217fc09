#include "plugins/models/qwen_vl/safetensors_file.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace lf::test {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::map<std::string, FileTensor> read_safetensors(const std::string& path) {
  const std::string bytes = read_file(path);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_size));
  const char* data = bytes.data() + 8 + header_size;
  std::map<std::string, FileTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    FileTensor tensor;
    tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
    const auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
    const char* begin = data + offsets[0];
    const size_t size = offsets[1] - offsets[0];
    const std::string type = entry.at("dtype");
    if (type == "F32") {
      tensor.floats.resize(size / 4);
      std::memcpy(tensor.floats.data(), begin, size);
    } else if (type == "I64") {
      tensor.integers.resize(size / 8);
      std::memcpy(tensor.integers.data(), begin, size);
    } else if (type == "I32") {
      std::vector<int32_t> narrow(size / 4);
      std::memcpy(narrow.data(), begin, size);
      tensor.integers.assign(narrow.begin(), narrow.end());
    } else if (type == "BOOL") {
      tensor.integers.assign(begin, begin + size);
    } else {
      throw std::runtime_error(path + ": " + name + " has type " + type);
    }
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace lf::test
