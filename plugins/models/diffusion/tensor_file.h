// A safetensors file of one sample: small, read by name.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace lf::diffusion {

// Reads the header only, and a tensor when it is asked for. Every failure is sdk::Failure(LF_E_DATA) with the path and
// what to do next.
class TensorFile {
 public:
  explicit TensorFile(const std::string& path);

  bool has(const std::string& name) const { return entries_.contains(name); }
  // The shape; throws where there is no such tensor.
  const std::vector<int64_t>& shape(const std::string& name) const { return entry(name).shape; }
  // F32, F16 or BF16, as f32. Throws for other types, and for values that are not finite.
  std::vector<float> read(const std::string& name);
  std::vector<std::string> beginning(const std::string& prefix) const;
  // Names that are not in `known` and do not begin with `prefix`.
  std::vector<std::string> others(const std::vector<std::string>& known, const std::string& prefix) const;
  // Throws for what a caller finds wrong with its content.
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<int64_t> shape;
    uint64_t begin = 0, bytes = 0;
  };
  const Entry& entry(const std::string& name) const;

  std::string path_;
  std::ifstream in_;
  uint64_t data_begin_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace lf::diffusion
