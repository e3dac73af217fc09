#include "internvl/processor/columns.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "family/packing.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::internvl {

std::vector<int64_t> visual_rows(const family::Sequence& sequence, const InternVlConfig& config, int64_t context) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < sequence.rows(); ++row)
    if (sequence.ids[static_cast<size_t>(row)] == context) rows.push_back(row);
  int64_t tiles = 0;
  for (const family::VisionInput& input : sequence.vision) tiles += input.groups;
  if (static_cast<int64_t>(rows.size()) != tiles * config.tile_tokens())
    throw sdk::Failure(LF_E_DATA, fmt::format("{} image tokens: expected {} for {} tiles of {}", rows.size(),
                                              tiles * config.tile_tokens(), tiles, config.tile_tokens()));
  return rows;
}

family::Columns make_columns(std::span<const family::Sequence> sequences, const InternVlConfig& config, int64_t context,
                             LossWeighting weighting, const RowWriter& write_rows) {
  family::Packed packed = family::pack(sequences);
  const int64_t n = packed.rows();
  int64_t patches = 0;
  std::vector<int64_t> positions, visual;
  std::vector<float> weights;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const family::Sequence& sequence = sequences[s];
    positions.resize(positions.size() + sequence.ids.size());
    std::iota(positions.end() - sequence.rows(), positions.end(), 0);
    for (const int64_t row : visual_rows(sequence, config, context)) visual.push_back(packed.starts[s] + row);
    weights.resize(weights.size() + sequence.ids.size(),
                   static_cast<float>(token_weight(weighting, sequence.supervised())));
    for (const family::VisionInput& input : sequence.vision) patches += input.patches();
  }
  family::Columns out;
  out.add("position_ids", family::integer_column(std::move(positions), {1, n}));
  if (weighting != LossWeighting::kToken) out.add("loss_weights", family::float_column(std::move(weights), {n}));
  if (patches > 0) {
    const auto n_visual = static_cast<int64_t>(visual.size());
    const int64_t values = config.vision.num_channels * config.vision.patch_size * config.vision.patch_size;
    out.add("visual_rows", family::integer_column(std::move(visual), {n_visual}));
    lf_tensor pixels = family::uninitialised_floats(patches, values);
    out.add("pixel_values", pixels);  // owned by `out` from here
    auto* to = static_cast<float*>(pixels.data);
    for (const family::Sequence& sequence : sequences)
      for (const family::VisionInput& input : sequence.vision) {
        write_rows(input, to);
        to += input.patches() * values;
      }
  }
  packed.add_to(out);
  return out;
}

}  // namespace lf::internvl
