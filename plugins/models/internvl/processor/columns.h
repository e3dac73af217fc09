// The columns of a micro-batch: all sequences one after another, without padding.
//
// Beside those of family/packing.h, N rows, V image tokens, P patches:
//   position_ids  i64 [1, N]                   from 0 in every sequence
//   loss_weights  f32 [N]                      unless every token weighs 1
//   visual_rows   i64 [V]                      rows that take the tower's rows, ascending
//   pixel_values  f32 [P, values of a patch]   tiles in order of appearance, patches in merge-block order
// Without pictures the last two are absent.
#pragma once

#include <functional>
#include <span>

#include "family/columns.h"
#include "family/sequence.h"
#include "internvl/config.h"
#include "internvl/processor/loss_weighting.h"

namespace lf::internvl {

// Rows of <IMG_CONTEXT> that belong to a sequence's pictures. Throws LF_E_DATA where they are not as many as its tiles
// make.
std::vector<int64_t> visual_rows(const family::Sequence& sequence, const InternVlConfig& config, int64_t context);

// Writes one input's patches. [the calling thread]
using RowWriter = std::function<void(const family::VisionInput& input, float* out)>;

family::Columns make_columns(std::span<const family::Sequence> sequences, const InternVlConfig& config, int64_t context,
                             LossWeighting weighting, const RowWriter& write_rows);

}  // namespace lf::internvl
