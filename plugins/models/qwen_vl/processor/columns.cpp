#include "qwen_vl/processor/columns.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "lf/plugin_sdk/tensor.hpp"
#include "qwen_vl/processor/positions.h"

namespace lf::qwen_vl {
namespace {

lf_tensor give_integers(std::vector<int64_t> values, std::initializer_list<int64_t> shape) {
  return sdk::give(std::move(values), LF_DTYPE_I64, std::span<const int64_t>(shape.begin(), shape.size()));
}

// Like sdk::give, but the memory is not cleared first: pixels are most of a micro-batch and are all written.
lf_tensor uninitialised_floats(int64_t rows, int64_t columns) {
  const int64_t shape[] = {rows, columns};
  auto owner = std::unique_ptr<float[]>(new float[static_cast<size_t>(rows * columns)]);
  lf_tensor tensor = sdk::borrow(owner.get(), LF_DTYPE_F32, shape);
  tensor.owner = owner.release();
  tensor.release = [](void* held) { delete[] static_cast<float*>(held); };
  return tensor;
}

}  // namespace

Columns::~Columns() {
  for (lf_named_tensor& column : columns_) sdk::release(column.tensor);
}

void Columns::add(std::string_view name, lf_tensor tensor) {
  auto column = sdk::with_header<lf_named_tensor>();
  column.name = sdk::str(name);
  column.tensor = tensor;
  columns_.push_back(column);
}

uint32_t Columns::give(std::span<lf_named_tensor> out) {
  if (out.size() < columns_.size())
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("collate: expected room for {} columns, got {}", columns_.size(), out.size()));
  std::copy(columns_.begin(), columns_.end(), out.begin());
  const auto n = static_cast<uint32_t>(columns_.size());
  columns_.clear();
  return n;
}

Columns make_columns(std::span<const Sequence> sequences, const QwenVlConfig& config, const RowWriter& write_rows) {
  int64_t rows = 0, patches = 0, inputs = 0;
  bool any_source = false;
  for (const Sequence& sequence : sequences) {
    rows += sequence.rows();
    inputs += static_cast<int64_t>(sequence.vision.size());
    for (const VisionInput& input : sequence.vision) patches += input.patches();
    any_source = any_source || !sequence.source_rows.empty();
  }
  const auto n = static_cast<size_t>(rows);
  std::vector<int64_t> ids, targets, positions(3 * n), starts{0}, visual_rows, grids, source_rows;
  ids.reserve(n);
  targets.reserve(n);
  for (const Sequence& sequence : sequences) {
    const int64_t start = starts.back();
    ids.insert(ids.end(), sequence.ids.begin(), sequence.ids.end());
    if (!sequence.labels.empty()) {
      targets.insert(targets.end(), sequence.labels.begin() + 1, sequence.labels.end());
      targets.push_back(kUnsupervised);
    }
    const auto runs = visual_runs(sequence.ids, sequence.vision, config);
    write_positions(sequence.rows(), runs, positions.data() + start, rows);
    for (const VisualRun& run : runs)
      for (int64_t row = run.begin; row < run.end(); ++row) visual_rows.push_back(start + row);
    for (const VisionInput& input : sequence.vision)
      grids.insert(grids.end(), {input.groups, input.height, input.width});
    if (any_source && sequence.source_rows.empty()) source_rows.resize(source_rows.size() + sequence.ids.size(), -1);
    source_rows.insert(source_rows.end(), sequence.source_rows.begin(), sequence.source_rows.end());
    starts.push_back(start + sequence.rows());
  }

  Columns out;
  const auto n_starts = static_cast<int64_t>(starts.size()), n_visual = static_cast<int64_t>(visual_rows.size());
  out.add("input_ids", give_integers(std::move(ids), {rows}));
  out.add("targets", give_integers(std::move(targets), {rows}));
  out.add("position_ids", give_integers(std::move(positions), {3, rows}));
  out.add("segment_starts", give_integers(std::move(starts), {n_starts}));
  if (inputs > 0) {
    out.add("visual_rows", give_integers(std::move(visual_rows), {n_visual}));
    const int64_t values = config.vision.patch_columns();
    lf_tensor pixels = uninitialised_floats(patches, values);
    out.add("pixel_values", pixels);  // owned by `out` from here
    out.add("grid_thw", give_integers(std::move(grids), {inputs, 3}));
    auto* to = static_cast<float*>(pixels.data);
    for (const Sequence& sequence : sequences)
      for (const VisionInput& input : sequence.vision) {
        write_rows(input, to);
        to += input.patches() * values;
      }
  }
  if (any_source) out.add("source_row", give_integers(std::move(source_rows), {rows}));
  return out;
}

}  // namespace lf::qwen_vl
