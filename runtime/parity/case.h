// A reference case on disk, and one micro-batch of it.
//
//   DIR/config.json, DIR/model.safetensors, DIR/<case>/inputs.safetensors, DIR/<case>/expected.safetensors
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "load/load.h"
#include "model/description.h"
#include "weights/weights.h"

namespace lf {

// Named tensors of a safetensors file, lent as fields of a sample. The file stays mapped as long as this lives.
class Fields {
 public:
  explicit Fields(const std::filesystem::path& file);
  const std::vector<lf_named_tensor>& tensors() const { return tensors_; }
  const std::string& place() const { return place_; }

 private:
  SafetensorsFile file_;
  std::string place_;
  std::vector<lf_named_tensor> tensors_;
};

// The one sample that these fields are, collated alone. Throws kBadData with the plugin's message.
MicroBatch collate_fields(const Model& model, const Fields& fields);

// Names of the cases of a directory: its folders that hold inputs.safetensors, sorted. Throws kInputMissing if none,
// and where a folder has expected.safetensors alone.
std::vector<std::string> case_names(const std::filesystem::path& directory);

}  // namespace lf
