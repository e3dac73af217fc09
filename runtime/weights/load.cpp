#include "weights/load.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.h"
#include "weights/convert.h"
#include "weights/finite.h"
#include "weights/names.h"
#include "weights/read_tensor.h"

namespace lf {

struct LoadPlan::Problems {
  std::vector<std::string> missing, unread, wrong;
  size_t wholly_missing = 0;  // parameters of which there is no tensor
};

namespace {

// Some families were published before the class that opens them named its modules anew, and what that class writes
// today has the new names. Whichever the files mostly have.
void name_as_the_files_do(const ModelDirectory& directory, std::vector<ParameterInfo>& table) {
  const auto is_there = [&](ParameterPart part, const std::string& name) {
    part.name = name;
    return directory.find(file_tensor_name(part, 0)).file != nullptr;
  };
  size_t by_name = 0, by_class = 0;
  for (const ParameterInfo& parameter : table)
    for (const ParameterPart& part : parameter.parts) {
      by_name += is_there(part, part.name);
      by_class += !part.class_name.empty() && is_there(part, part.class_name);
    }
  if (by_class <= by_name) return;
  for (ParameterInfo& parameter : table)
    for (ParameterPart& part : parameter.parts)
      if (!part.class_name.empty()) part.name = part.class_name;
}

}  // namespace

LoadPlan::LoadPlan(const ModelDirectory& directory, std::vector<ParameterInfo> table, std::vector<std::string> ignore,
                   const std::vector<bool>& may_be_absent)
    : directory_(directory), table_(std::move(table)) {
  name_as_the_files_do(directory_, table_);
  check_parameters(table_);
  Problems problems;
  stored_.resize(table_.size());
  source_.resize(table_.size());
  for (size_t i = 0; i < table_.size(); ++i) find_pieces(i, problems);
  // Values of a tie may be published under any of its names.
  for (size_t i = 0; i < table_.size(); ++i)
    source_[i] = table_[i].tied_to < 0 ? i : static_cast<size_t>(table_[i].tied_to);
  for (size_t i = 0; i < table_.size(); ++i) {
    const size_t root = source_[i];
    if (root != i && is_complete(i) && !is_complete(source_[root])) source_[root] = source_[i] = i;
  }
  for (size_t& source : source_) source = source_[source];
  absent_.resize(table_.size());
  for (size_t i = 0; i < table_.size(); ++i) {
    if (!has_any(i)) {
      if (table_[i].tied_to >= 0 || source_[i] != i) continue;
      absent_[i] = !may_be_absent.empty() && may_be_absent[i];
      if (absent_[i]) continue;
      ++problems.wholly_missing;
    }
    for (size_t k = 0; k < stored_[i].size(); ++k) {
      for (size_t index = 0; index < stored_[i][k].size(); ++index) {
        if (stored_[i][k][index].tensor.file == nullptr)
          problems.missing.push_back(file_tensor_name(table_[i].parts[k], static_cast<int64_t>(index)));
      }
    }
  }
  find_unread(ignore, problems);
  if (!problems.missing.empty() || !problems.unread.empty() || !problems.wrong.empty()) {
    std::string text;
    const auto list = [&](const char* title, const std::vector<std::string>& names, bool nearest) {
      if (names.empty()) return;
      text += fmt::format("\n  {} ({}):", title, names.size());
      for (const std::string& line : summarize_names(names)) {
        text += "\n    " + line;
        const std::string near = nearest && names.size() * problems.unread.size() < 10'000
                                     ? nearest_name(line, summarize_names(problems.unread))
                                     : std::string();
        if (!near.empty()) text += "; did the file mean this by " + near + "?";
      }
    };
    list("missing", problems.missing, true);
    if (problems.wholly_missing > 0)
      text += "\n    what is to begin at random, because these weights never had it, is named in model.new_parameters";
    list("in the files, but no part of this model", problems.unread, false);
    list("wrong", problems.wrong, false);
    fail(Exit::kBadData, "{}: the weights do not fit the model; check that [model] path and family belong together{}",
         directory_.path().string(), text);
  }
  for (size_t i = 0; i < table_.size(); ++i) check_tie(i);
}

void LoadPlan::find_pieces(size_t parameter, Problems& problems) {
  for (const ParameterPart& part : table_[parameter].parts) {
    auto& pieces = stored_[parameter].emplace_back();
    const std::vector<int64_t> shape = file_tensor_shape(part);
    for (int64_t index = 0; index < file_tensor_count(part); ++index) {
      Piece& piece = pieces.emplace_back();
      const std::string name = file_tensor_name(part, index);
      piece.tensor = directory_.find(name);
      if (piece.tensor.file == nullptr) continue;
      const TensorEntry& entry = *piece.tensor.entry;
      if (entry.shape != shape) {
        problems.wrong.push_back(fmt::format("{}: expected shape [{}], got [{}]", name, fmt::join(shape, ", "),
                                             fmt::join(entry.shape, ", ")));
      } else if (!is_convertible(entry.dtype, DType::kF32)) {
        problems.wrong.push_back(
            fmt::format("{}: expected floating-point values, got {}", name, dtype_name(entry.dtype)));
      } else if (entry.dtype == DType::kF8E4M3) {
        piece.scale = fp8_scale(directory_, entry);
        has_fp8_ = true;
        if (piece.scale.file == nullptr) {
          problems.wrong.push_back(fmt::format("{}: FP8 values without their scales, {}_scale_inv", name, name));
        } else if (entry.shape.size() < 2 || piece.scale.entry->dtype != DType::kF32 ||
                   piece.scale.entry->shape != fp8_scale_shape(entry)) {
          problems.wrong.push_back(fmt::format("{}: expected F32 scales of shape [{}], got {} of [{}]",
                                               piece.scale.entry->name, fmt::join(fp8_scale_shape(entry), ", "),
                                               dtype_name(piece.scale.entry->dtype),
                                               fmt::join(piece.scale.entry->shape, ", ")));
        }
      }
    }
  }
}

void LoadPlan::find_unread(const std::vector<std::string>& ignore, Problems& problems) {
  std::unordered_map<const TensorEntry*, size_t> read;
  std::unordered_set<const TensorEntry*> scales;
  for (size_t i = 0; i < table_.size(); ++i) {
    for (const auto& pieces : stored_[i]) {
      for (const Piece& piece : pieces) {
        if (piece.scale.file != nullptr) scales.insert(piece.scale.entry);
        if (piece.tensor.file == nullptr) continue;
        const auto [first, fresh] = read.emplace(piece.tensor.entry, i);
        if (!fresh && table_[i].tied_to < 0)
          fail(Exit::kConfig, "parameter {}: its tensor {} is also read by {}; the model plugin's description is wrong",
               table_[i].name, piece.tensor.entry->name, table_[first->second].name);
      }
    }
  }
  for (const auto& file : directory_.files()) {
    for (const TensorEntry& tensor : file->tensors()) {
      if (read.contains(&tensor) || scales.contains(&tensor)) continue;
      unread_.push_back({file.get(), &tensor});
      if (!matches_any(ignore, tensor.name)) problems.unread.push_back(tensor.name);
    }
  }
}

bool LoadPlan::is_complete(size_t parameter) const {
  for (const auto& pieces : stored_[parameter]) {
    for (const Piece& piece : pieces) {
      if (piece.tensor.file == nullptr) return false;
    }
  }
  return true;
}

bool LoadPlan::has_any(size_t parameter) const {
  for (const auto& pieces : stored_[parameter]) {
    for (const Piece& piece : pieces) {
      if (piece.tensor.file != nullptr) return true;
    }
  }
  return false;
}

// Blocks of rows of both, compared as fp32.
void LoadPlan::check_tie(size_t parameter) const {
  const size_t source = source_[parameter];
  if (source == parameter || !is_complete(parameter)) return;
  const std::vector<int64_t>& shape = table_[parameter].shape;
  const Box all = whole(shape);
  const int64_t rows = shape.empty() ? 1 : shape[0], row_elements = all.elements() / std::max<int64_t>(rows, 1);
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(row_elements, 1));
  std::vector<float> mine, theirs;
  for (int64_t row = 0; row < rows; row += step) {
    Box block = all;
    if (!shape.empty()) {
      block.begin[0] = row;
      block.end[0] = std::min(rows, row + step);
    }
    mine.resize(static_cast<size_t>(block.elements()));
    theirs.resize(mine.size());
    load_as(parameter, kAlone, block, DType::kF32, mine.data());
    load_as(source, kAlone, block, DType::kF32, theirs.data());
    if (std::memcmp(mine.data(), theirs.data(), mine.size() * sizeof(float)) == 0) continue;
    for (const auto& [of, values] : {std::pair(parameter, &mine), std::pair(source, &theirs)})
      if (const auto bad = first_not_finite(*values))  // not another weight, but none
        refuse_not_finite(directory_.path().string(), table_[of].name, (*values)[static_cast<size_t>(*bad)]);
    fail(Exit::kBadData,
         "{}: the model ties {} to {}, but the files hold other values for it; set tie_word_embeddings to "
         "false in config.json, or remove the tensor",
         directory_.path().string(), table_[parameter].name, table_[source].name);
  }
}

DType LoadPlan::stored_dtype(size_t parameter) const { return stored_[source_[parameter]][0][0].tensor.entry->dtype; }

void LoadPlan::load(size_t parameter, const Place& place, const Box& local, DType dtype, void* out) const {
  if (!is_float(dtype)) fail(Exit::kBug, "parameter {}: asked for as {}", table_[parameter].name, dtype_name(dtype));
  if (is_absent(parameter)) fail(Exit::kBug, "parameter {}: the directory has none of it", table_[parameter].name);
  load_as(source_[parameter], place, local, dtype, out);
}

void LoadPlan::load(size_t parameter, DType dtype, void* out) const {
  load(parameter, kAlone, whole(table_[parameter].shape), dtype, out);
}

void LoadPlan::load_as(size_t described_by, const Place& place, const Box& local, DType dtype, void* out) const {
  const BoxView target = packed(out, dtype, local);
  for (const Fragment& fragment : fragments(table_[described_by], place, local)) {
    const Piece& piece = stored_[described_by][fragment.part][fragment.index];
    BoxView to = target;
    to.box = relative_to(fragment.local, local);
    read_box(piece.tensor, piece.scale, fragment.file, to, fragment.transposed);
  }
}

}  // namespace lf
