// Directories of low-rank adapters as Hugging Face peft (0.21) writes and opens them: adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/parameter.h"
#include "weights/copy_files.h"
#include "weights/file_system.h"
#include "weights/safetensors.h"

namespace lf {

// An adapter on the module of this name: of the class that the base opens as.
struct SavedAdapter {
  std::string module;
  int64_t rank = 0;
  double alpha = 0;
  bool table = false;     // of an embedding: lora_embedding_A [r, rows], lora_embedding_B [columns, r]
  std::string parameter;  // of a stack of experts: the module's parameter, which target_parameters names
  bool shares = false;    // for writing: a head's, which is a table's turned over
  std::string key() const { return parameter.empty() ? module : module + "." + parameter; }
};

// Opened, checked, immutable; any thread may read.
class AdapterDirectory {
 public:
  // Throws lf::Error: kBadData for what is no LoRA directory, or of a kind that is not carried out (DoRA, biases,
  // rank-stabilised scales, adapters of convolutions), naming the file and what was expected.
  static AdapterDirectory open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<SavedAdapter>& adapters() const { return adapters_; }  // in the order of the file
  // Whether weights that are tied share one adapter (ensure_weight_tying); then the head's is the table's turned over.
  bool ties() const { return ties_; }
  const std::vector<std::string>& tensors() const { return names_; }  // of all, also of modules saved whole
  // Null: not there.
  const TensorEntry* find(const std::string& name) const { return file_->find(name); }
  // f32 values of a tensor, whose shape must be this.
  std::vector<float> values(const std::string& name, const std::vector<int64_t>& shape) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<SafetensorsFile> file_;
  std::vector<SavedAdapter> adapters_;
  std::vector<std::string> names_;
  bool ties_ = false;
};

struct AdapterTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct AdapterExport {
  // Some module's name ends like an adapted one's, which peft would take for it too: patterns must match whole names.
  bool exact = false;
  // The base is a model of diffusers: pytorch_lora_weights.safetensors beside, for pipelines' load_lora_weights. It
  // cannot hold what is trained whole.
  bool diffusers = false;
  std::string base;  // what base_model_name_or_path says; empty: nothing
  double dropout = 0;
  bool ties = false;  // a head shares a table's adapter
  std::vector<SavedAdapter> adapters;
  std::vector<std::string> whole_modules;  // trained as they are: modules_to_save
  std::vector<AdapterTensor> tensors;
};

// Complete under its name, or not there at all. f32.
// `extra`: beside them.
void write_adapter_directory(FileSystem& files, const AdapterExport& made, const std::vector<ExtraFile>& extra,
                             const std::filesystem::path& target);

}  // namespace lf
