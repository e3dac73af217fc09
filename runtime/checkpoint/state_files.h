// The safetensors files of a checkpoint that is being written, by one rank or by several on a shared folder.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/hash.h"
#include "checkpoint/manifest.h"
#include "weights/safetensors.h"

namespace lf {

// A box of a whole tensor and its values, packed row-major in the tensor's dtype; borrowed.
struct StatePiece {
  Box box;
  const void* data = nullptr;
  // Instead of `data`, of values that are not in the host's memory: copies those from byte `at` on; done on return, on
  // the thread that calls save.
  std::function<void(uint64_t at, std::span<std::byte> out)> read = {};
};

// A tensor of the training state in whole, uncut coordinates, and what this rank writes of it. Every rank names the
// same tensors in the same order; together their pieces cover each exactly once.
struct StateTensor {
  std::string group;  // of files: "parameters", "optimizer"
  std::string name;   // unique in all groups: "model.norm.weight", "model.norm.weight.m"
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<StatePiece> pieces;
};

// All of a tensor, from one rank.
StateTensor whole_tensor(std::string group, std::string name, DType dtype, std::vector<int64_t> shape,
                         const void* data);

// Names and headers are a pure function of the tensors' names, types and shapes.
class StateFiles {
 public:
  StateFiles(const std::vector<StateTensor>& tensors, uint64_t max_file_bytes);

  uint64_t total_bytes() const;
  // Makes the files with their headers in `folder`, or opens the ones that another rank made.
  void create(FileSystem& files, const std::filesystem::path& folder);
  void open(FileSystem& files, const std::filesystem::path& folder);
  // Writes this rank's pieces in the order of the files, syncs, and closes them. Returns the bytes written by file.
  std::vector<uint64_t> write(const std::vector<StateTensor>& tensors);
  // Sizes and hashes for the manifest. `written` is the sum over all ranks: less or more than the files hold is a kBug.
  // Where this rank wrote a file from begin to end its hashes are those of the memory it was written from; other files
  // are read back.
  std::map<std::string, ManifestFile> finish(const std::vector<uint64_t>& written);

 private:
  struct File {
    std::string name;
    SafetensorsHeader header;
    std::unique_ptr<OutputFile> out;
    Hash hash;  // of the first `hashed` bytes
    uint64_t hashed = 0, written = 0;
    ManifestFile digest;
  };
  void write_tensor(File& file, const TensorEntry& entry, const StateTensor& tensor);
  void read_back(File& file);

  std::filesystem::path folder_;
  std::vector<File> files_;
};

}  // namespace lf
