// A Hugging Face model directory: config.json, safetensors files with or without an index, tokenizer and other files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weights/safetensors.h"

namespace lf {

// Where a tensor of a directory lies. Pointers live as long as the directory.
struct StoredTensor {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;
  std::span<const std::byte> bytes() const { return file->bytes(*entry); }
};

// Opened and checked once, then immutable; any thread may read. Weights are `model.safetensors` or the files named by
// `model.safetensors.index.json` (`diffusion_pytorch_model...` likewise). Refused with lf::Error: no weights (65, or 66
// when there is nothing at all), both forms at once, an index that names files elsewhere ("../", "/"), a tensor in two
// files, or an index that does not agree with its files.
class ModelDirectory {
 public:
  static ModelDirectory open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::string& config() const { return config_; }          // text of config.json; empty: there is none
  const std::string& index_file() const { return index_file_; }  // name of the index; empty: a single file
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }  // in the order of their names
  const std::vector<std::string>& names() const { return names_; }  // of all tensors, by file and place in it
  // Throws nothing; file null where there is no such tensor.
  StoredTensor find(std::string_view name) const;

 private:
  void read_files(const std::vector<std::string>& names);
  void check_index(const std::string& text);
  void sort_names();

  std::filesystem::path path_;
  std::string config_, index_file_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::string> names_;
  std::vector<StoredTensor> by_name_;  // sorted
};

}  // namespace lf
