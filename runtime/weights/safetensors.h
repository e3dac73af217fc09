// Safetensors files: a strict reader and a writer whose bytes equal the reference library's.
//
// Format (safetensors README, "Format"): u64 length of the header, little endian; the header, a JSON object from names
// to {dtype, shape, data_offsets} with an optional "__metadata__" of strings, padded with spaces; then the tensors'
// bytes, row-major, without gaps.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mesh/box.h"
#include "weights/dtype.h"
#include "weights/file_system.h"
#include "weights/mapped_file.h"

namespace lf {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

struct TensorEntry : TensorSpec {
  uint64_t begin = 0, end = 0;  // bytes in the file, from its start
  uint64_t size() const { return end - begin; }
};

// The header of a file: parsed, or planned before anything is written.
class SafetensorsHeader {
 public:
  // `bytes` starts with the length word and may be the whole file; `file_size` is the file's. Everything is checked:
  // the tensors cover the rest of the file exactly once, sizes match shapes, names are unique UTF-8 without NUL and
  // '/'. Throws lf::Error(kBadData) that starts with `place`, names the tensor, and says what was expected.
  static SafetensorsHeader parse(const std::string& place, std::span<const std::byte> bytes, uint64_t file_size);

  // The layout that the reference library would choose: falling dtype_rank, then name. Names must be unique.
  static SafetensorsHeader plan(std::vector<TensorSpec> tensors, std::map<std::string, std::string> metadata);

  const std::string& text() const { return text_; }  // length word, JSON and padding: the file's first bytes
  const std::vector<TensorEntry>& tensors() const { return tensors_; }  // in the order of their bytes
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  uint64_t file_size() const { return file_size_; }
  const TensorEntry* find(std::string_view name) const;  // null: not there

 private:
  void index_names(const std::string& place);

  std::string text_;
  std::vector<TensorEntry> tensors_;
  // Hash of the name and index in tensors_, sorted: a fraction of a hash table's memory, and no name can make it slow.
  std::vector<std::pair<uint64_t, uint32_t>> by_name_;
  std::map<std::string, std::string> metadata_;
  uint64_t file_size_ = 0;
};

// A file mapped for reading; any thread may read. Throws as SafetensorsHeader::parse and MappedFile do.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }
  const std::vector<TensorEntry>& tensors() const { return header_.tensors(); }
  const TensorEntry* find(std::string_view name) const { return header_.find(name); }
  const TensorEntry& at(std::string_view name) const;  // throws lf::Error(kBadData) naming file and tensor
  std::span<const std::byte> bytes(const TensorEntry& tensor) const {
    return file_.bytes().subspan(tensor.begin, tensor.size());
  }

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

// Writes a box of a tensor, given row-major in `data` in the file's dtype. Boxes that do not overlap may be written at
// the same time, also by other processes.
void write_box(OutputFile& file, const TensorEntry& tensor, const Box& box, const void* data);

// Names come from files: control characters are shown as escapes, and 200 bytes at most.
std::string printable(std::string_view name);

}  // namespace lf
