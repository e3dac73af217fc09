// Writing a model directory that transformers and diffusers open: complete under its name, or not there at all.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "weights/config_dtype.h"
#include "weights/copy_files.h"
#include "weights/load.h"

namespace lf {

// Everything is planned in the constructor-like functions, and nothing is written before create(). Then values are
// handed over, by one rank or by several that share the folder, and publish() makes the directory visible under its
// name.
//
//   ModelExport out = ModelExport::over_source(files, plan, "run/model", std::nullopt);
//   out.create();                                           // one rank; the others wait for it
//   for (i : parameters) out.write(i, kAlone, whole(shape), DType::kF32, values[i]);   // every rank: what it holds
//   out.publish(out.written_bytes());                       // one rank, when all have written; the sum over all ranks
class ModelExport {
 public:
  // The source's files over again: the same headers, order and types, all companion files, so that unchanged values
  // give the same bytes. With `dtype`, all floating-point tensors in that type (FP8 sources need one: 65 otherwise).
  // What the source lacks (LoadPlan::is_absent) goes to its last file, in the type of most of its elements. `config`:
  // the text of another config.json than the source's, or empty. `plan` outlives the export.
  static ModelExport over_source(FileSystem& files, const LoadPlan& plan, const std::filesystem::path& target,
                                 std::optional<DType> dtype, const std::string& config = {});

  struct Scratch {
    std::vector<ParameterInfo> table;
    DType dtype = DType::kBf16;
    std::string config;                       // text of config.json
    std::filesystem::path tokenizer;          // its tokenizer and processor files are copied; empty: none
    uint64_t max_file_bytes = 5'000'000'000;  // of tensors in one file; a larger tensor has one to itself
  };
  static ModelExport from_scratch(FileSystem& files, Scratch request, const std::filesystem::path& target);

  ModelExport(ModelExport&&) noexcept;
  ~ModelExport();  // what was created and not published is removed

  uint64_t total_bytes() const { return total_bytes_; }    // of the whole directory
  uint64_t tensor_bytes() const { return tensor_bytes_; }  // of the tensors that parameters stand behind
  // Names of weight files beside the source's that are not carried over.
  const std::vector<std::string>& left_out() const { return left_out_; }

  // Before create(): also these, in place of what would be copied under their names. A kBug for a name that the export
  // itself writes.
  void add(const std::vector<ExtraFile>& extra);
  // Makes "<target>.tmp" with everything but the parameters. Throws lf::Error(kCannotCreate) when the disk has too
  // little room, else as FileSystem does.
  void create();
  // Hands over a box of a place's array (packed row-major, any floating type); of copies only one, see written_boxes.
  // Tied parameters are ignored: they are written with the one they are tied to. Any thread, also at the same time.
  void write(size_t parameter, const Place& place, const Box& local, DType dtype, const void* values);
  // What this process handed over so far, in bytes of the files. A rank that did not create syncs by sync().
  uint64_t written_bytes() const;
  void sync();
  // `written` must equal tensor_bytes(): a parameter forgotten, or handed over twice, is a kBug.
  void publish(uint64_t written);

 private:
  struct File {
    std::string name;
    SafetensorsHeader header;
    std::unique_ptr<OutputFile> out;
  };
  struct Target {  // of one file tensor
    size_t file = 0;
    const TensorEntry* entry = nullptr;
  };
  ModelExport(FileSystem& files, std::filesystem::path target);
  void add_file(std::string name, SafetensorsHeader header);
  void find_targets();
  void write_as(size_t described_by, const Place& place, const Box& local, DType dtype, const void* values);
  std::vector<IndexedTensor> indexed() const;
  OutputFile& opened(size_t file);

  FileSystem* files_;
  std::filesystem::path target_, temporary_;
  std::vector<ParameterInfo> table_;
  std::vector<std::vector<size_t>> aliases_;  // by parameter: itself and what is tied to it
  std::vector<File> outputs_;
  std::unordered_map<std::string, Target> targets_;
  std::vector<std::pair<StoredTensor, Target>> verbatim_;
  std::vector<CopiedFile> copies_;
  std::vector<std::pair<std::string, std::string>> texts_;  // name, content
  std::vector<std::string> left_out_;
  uint64_t total_bytes_ = 0, tensor_bytes_ = 0;
  bool created_ = false;
  struct Progress;
  std::unique_ptr<Progress> progress_;
};

}  // namespace lf
