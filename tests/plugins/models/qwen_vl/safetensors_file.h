// A safetensors file as a test reads it: everything in memory, floats as f32.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lf::test {

struct FileTensor {
  std::vector<int64_t> shape;
  std::vector<float> floats;      // of F32
  std::vector<int64_t> integers;  // of I64, I32 and BOOL
};

// Throws std::runtime_error where the file is not what it should be.
std::map<std::string, FileTensor> read_safetensors(const std::string& path);

std::string read_file(const std::string& path);

}  // namespace lf::test
