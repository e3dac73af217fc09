// From a model directory into memory, strictly: every parameter is found, or may be absent by name; every tensor is
// read.
#pragma once

#include <string>
#include <vector>

#include "mesh/slices.h"
#include "weights/directory.h"

namespace lf {

// Which tensors make which parameter, checked as a whole before anything is read. Immutable; any thread may load.
class LoadPlan {
 public:
  // `directory` outlives the plan. Parts are looked for under their names or, where the files mostly have these, under
  // their class_name; table() then has those. `ignore`: glob patterns of tensors that may stay unread; models keep them
  // as they are when they are written back. `may_be_absent`, by parameter, or empty: of those the directory may hold no
  // tensor at all; some of a parameter's are a mistake as ever. Throws lf::Error(kBadData) that lists all missing,
  // unread and ill-shaped tensors at once, and where a tensor that the model ties to another holds values of its own.
  LoadPlan(const ModelDirectory& directory, std::vector<ParameterInfo> table, std::vector<std::string> ignore,
           const std::vector<bool>& may_be_absent = {});

  const ModelDirectory& directory() const { return directory_; }
  const std::vector<ParameterInfo>& table() const { return table_; }
  // Tensors that no parameter stands behind, in the order of the directory: ignored ones. Scales of FP8 are not among
  // them.
  const std::vector<StoredTensor>& unread() const { return unread_; }
  bool has_fp8() const { return has_fp8_; }

  // Whether the directory holds nothing of it, nor of what it is tied to; then it has neither type nor values here.
  bool is_absent(size_t parameter) const { return absent_[source_[parameter]]; }

  // The type in which files hold the parameter; the first part's where they differ.
  DType stored_dtype(size_t parameter) const;

  // Writes the box of this place's array, packed row-major, to `out` as `dtype`. Tied parameters get the values of the
  // one they are tied to.
  void load(size_t parameter, const Place& place, const Box& local, DType dtype, void* out) const;
  void load(size_t parameter, DType dtype, void* out) const;  // uncut and whole

  // The file tensor `index` of a part; file null where the directory has none (tied parameters may lack theirs).
  StoredTensor stored(size_t parameter, int part, int64_t index) const {
    return stored_[parameter][part][index].tensor;
  }

 private:
  struct Piece {
    StoredTensor tensor, scale;
  };
  struct Problems;

  void find_pieces(size_t parameter, Problems& problems);
  void find_unread(const std::vector<std::string>& ignore, Problems& problems);
  void check_tie(size_t parameter) const;
  void load_as(size_t described_by, const Place& place, const Box& local, DType dtype, void* out) const;
  bool is_complete(size_t parameter) const;
  bool has_any(size_t parameter) const;

  const ModelDirectory& directory_;
  std::vector<ParameterInfo> table_;
  std::vector<std::vector<std::vector<Piece>>> stored_;  // by parameter, part, index
  std::vector<size_t> source_;  // the parameter whose tensors hold the values: itself, or one of a tie
  std::vector<bool> absent_;    // by parameter
  std::vector<StoredTensor> unread_;
  bool has_fp8_ = false;
};

}  // namespace lf
