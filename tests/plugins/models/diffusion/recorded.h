// Inputs of a recorded case, read by the plugin's own reader of small files.
#pragma once

#include <string>
#include <vector>

#include "diffusion/tensor_file.h"

namespace lf::diffusion {

class Recorded {
 public:
  // directory: "wan-tiny/main".
  explicit Recorded(const std::string& directory)
      : path_(std::string(LF_REFERENCES) + "/" + directory + "/inputs.safetensors") {}
  std::vector<float> floats(const std::string& name) const {
    TensorFile file(path_);
    return file.read(name);
  }

 private:
  std::string path_;
};

}  // namespace lf::diffusion
