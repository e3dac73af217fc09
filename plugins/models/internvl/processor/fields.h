// Samples given as tensors: parity cases, and data sets that were tokenised and tiled elsewhere.
#pragma once

#include <span>
#include <vector>

#include "family/sequence.h"
#include "internvl/config.h"
#include "lf/plugin_api/tensor.h"

namespace lf::internvl {

// Beside the token fields of family/fields.h, T tiles:
//   pixel_values      f32 [T, 3, tile, tile]
//   image_flags       [T]: 0 for a tile that only fills a batch; it is left out before the tower
//   tiles_per_sample  [B or S]: checked
// position_ids are passed over: positions count from 0 in every sequence. Any other name is refused.
//
// Sequences borrow the pixels. Throws sdk::Failure LF_E_DATA, naming the field.
std::vector<family::Sequence> read_fields(std::span<const lf_named_tensor> fields, const InternVlConfig& config);

}  // namespace lf::internvl
