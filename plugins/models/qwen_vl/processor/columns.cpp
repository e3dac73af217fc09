#include "qwen_vl/processor/columns.h"

#include <algorithm>
#include <numeric>

#include "family/packing.h"
#include "lf/plugin_sdk/tensor.hpp"
#include "qwen_vl/processor/positions.h"

namespace lf::qwen_vl {
Columns make_columns(std::span<const Sequence> sequences, const QwenVlConfig& config, const RowWriter& write_rows) {
  family::Packed packed = family::pack(sequences);
  const int64_t rows = packed.rows();
  int64_t patches = 0, inputs = 0;
  const bool plain = config.text.mrope_section.empty();
  std::vector<int64_t> positions(static_cast<size_t>((plain ? 1 : 3) * rows)), visual_rows, grids;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const Sequence& sequence = sequences[s];
    const int64_t start = packed.starts[s];
    const auto runs = visual_runs(sequence.ids, sequence.vision, config);
    if (plain) {
      std::iota(positions.begin() + start, positions.begin() + start + sequence.rows(), 0);
    } else {
      write_positions(sequence.rows(), runs, positions.data() + start, rows);
    }
    for (const VisualRun& run : runs)
      for (int64_t row = run.begin; row < run.end(); ++row) visual_rows.push_back(start + row);
    inputs += static_cast<int64_t>(sequence.vision.size());
    for (const VisionInput& input : sequence.vision) {
      patches += input.patches();
      grids.insert(grids.end(), {input.groups, input.height, input.width});
    }
  }

  Columns out;
  const auto n_visual = static_cast<int64_t>(visual_rows.size());
  out.add("position_ids", family::integer_column(std::move(positions), {plain ? 1 : 3, rows}));
  if (inputs > 0) {
    out.add("visual_rows", family::integer_column(std::move(visual_rows), {n_visual}));
    const int64_t values = config.vision.patch_columns();
    lf_tensor pixels = family::uninitialised_floats(patches, values);
    out.add("pixel_values", pixels);  // owned by `out` from here
    out.add("grid_thw", family::integer_column(std::move(grids), {inputs, 3}));
    auto* to = static_cast<float*>(pixels.data);
    for (const Sequence& sequence : sequences)
      for (const VisionInput& input : sequence.vision) {
        write_rows(input, to);
        to += input.patches() * values;
      }
  }
  packed.add_to(out);
  return out;
}

}  // namespace lf::qwen_vl
