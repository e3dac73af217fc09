// Directories of low-rank adapters as Hugging Face peft (0.21) writes and opens them: adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weights/file_system.h"
#include "weights/safetensors.h"

namespace lf {

// What begins the name of every tensor of it: what peft calls the model that it wraps.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

// An adapter on the module of this name: of the class that the base opens as.
struct SavedAdapter {
  std::string module;
  int64_t rank = 0;
  double alpha = 0;
};

// Opened, checked, immutable; any thread may read.
class AdapterDirectory {
 public:
  // Throws lf::Error: kBadData for what is no LoRA directory, or of a kind that is not carried out (DoRA, biases,
  // rank-stabilised scales, adapters of embeddings), naming the file and what was expected.
  static AdapterDirectory open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<SavedAdapter>& adapters() const { return adapters_; }  // in the order of the file
  const std::vector<std::string>& tensors() const { return names_; }       // of all, also of modules saved whole
  // Null: not there.
  const TensorEntry* find(const std::string& name) const { return file_->find(name); }
  // f32 values of a tensor, whose shape must be this.
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<SafetensorsFile> file_;
  std::vector<SavedAdapter> adapters_;
  std::vector<std::string> names_;
};

struct AdapterTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct AdapterExport {
  std::string base;  // what base_model_name_or_path says; empty: nothing
  double dropout = 0;
  std::vector<SavedAdapter> adapters;
  std::vector<std::string> whole_modules;  // trained as they are: modules_to_save
  std::vector<AdapterTensor> tensors;
};

// Complete under its name, or not there at all. f32.
void write_adapter_directory(FileSystem& files, const AdapterExport& made, const std::filesystem::path& target);

}  // namespace lf
