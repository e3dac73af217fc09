#include "internvl/processor/fields.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "family/fields.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::internvl {
namespace {

using family::Fields;
using family::refuse_field;
using family::Sequence;
using family::VisionInput;

std::vector<const float*> read_tiles(Fields& fields, const InternVlConfig& config) {
  const lf_tensor* pixels = fields.find("pixel_values");
  const lf_tensor* flags = fields.find("image_flags");
  if (pixels == nullptr) {
    if (flags != nullptr) refuse_field("image_flags", "pixel_values beside it");
    return {};
  }
  const int64_t side = config.tile_size;
  if (pixels->dtype != LF_DTYPE_F32 || pixels->ndim != 4 || pixels->shape[1] != 3 || pixels->shape[2] != side ||
      pixels->shape[3] != side)
    refuse_field("pixel_values", fmt::format("f32 [tiles, 3, {0}, {0}]", side));
  const std::span<const float> values = family::finite_floats("pixel_values", *pixels);
  std::vector<int64_t> kept(static_cast<size_t>(pixels->shape[0]), 1);
  if (flags != nullptr) kept = fields.integers("image_flags", *flags);
  if (static_cast<int64_t>(kept.size()) != pixels->shape[0])
    refuse_field("image_flags", fmt::format("one for each of the {} tiles, got {}", pixels->shape[0], kept.size()));
  std::vector<const float*> tiles;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != 0 && kept[i] != 1) refuse_field("image_flags", fmt::format("0 or 1, got {}", kept[i]));
    if (kept[i] == 1) tiles.push_back(values.data() + static_cast<int64_t>(i) * 3 * side * side);
  }
  return tiles;
}

// Runs of placeholders, each as many whole tiles, and the markers that stand at their ends.
int64_t deal(Sequence& sequence, std::span<const float* const> tiles, const InternVlConfig& config, int64_t context) {
  const int64_t tokens = config.tile_tokens(), side = config.tile_size / config.vision.patch_size;
  int64_t taken = 0;
  for (int64_t row = 0; row < sequence.rows();) {
    if (sequence.ids[static_cast<size_t>(row)] != context) {
      ++row;
      continue;
    }
    int64_t end = row;
    while (end < sequence.rows() && sequence.ids[static_cast<size_t>(end)] == context) ++end;
    if ((end - row) % tokens != 0)
      throw sdk::Failure(LF_E_DATA, fmt::format("rows {} to {} are image tokens: expected a multiple of {} (one tile), "
                                                "got {}",
                                                row, end - 1, tokens, end - row));
    VisionInput input;
    input.groups = (end - row) / tokens;
    input.height = input.width = side;
    if (taken + input.groups > static_cast<int64_t>(tiles.size()))
      throw sdk::Failure(LF_E_DATA, fmt::format("field pixel_values: the tokens have place for more tiles than the {} "
                                                "that are left",
                                                tiles.size()));
    const auto first = tiles.begin() + taken;
    input.source = family::ReadyTiles{{first, first + input.groups}};
    taken += input.groups;
    sequence.blocks.push_back({std::max<int64_t>(row - 1, 0), std::min(end + 1, sequence.rows())});
    sequence.vision.push_back(std::move(input));
    row = end;
  }
  return taken;
}

}  // namespace

std::vector<Sequence> read_fields(std::span<const lf_named_tensor> named, const InternVlConfig& config) {
  Fields fields(named, "InternVL");
  fields.ignore({"position_ids"});
  if (!config.image_token_id)
    throw sdk::Failure(LF_E_DATA,
                       "samples of tensors need the number of <IMG_CONTEXT>; state img_context_token_id in "
                       "config.json");
  family::TokenRows rows = family::read_tokens(fields, config.text.vocab_size);
  const auto tiles_each = fields.integers("tiles_per_sample", rows.count);
  const std::vector<const float*> tiles = read_tiles(fields, config);
  fields.refuse_the_rest();
  int64_t taken = 0;
  for (size_t i = 0; i < rows.sequences.size(); ++i) {
    const int64_t own =
        deal(rows.sequences[i], std::span(tiles).subspan(static_cast<size_t>(taken)), config, *config.image_token_id);
    const auto number = static_cast<size_t>(rows.numbers[i]);
    if (tiles_each && (*tiles_each)[number] != own)
      refuse_field("tiles_per_sample", fmt::format("{} for sequence {}, got {}", own, number, (*tiles_each)[number]));
    taken += own;
  }
  if (taken != static_cast<int64_t>(tiles.size()))
    throw sdk::Failure(LF_E_DATA, fmt::format("field pixel_values: the tokens have place for {} tiles, {} are given",
                                              taken, tiles.size()));
  return std::move(rows.sequences);
}

}  // namespace lf::internvl
