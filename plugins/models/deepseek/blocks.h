// The decoder as the host runs it.
//
// Columns, N rows, S sequences:
//   input_ids, targets  i64 [N]       targets: the id to be predicted at the row; -100 where nothing is learnt
//   segment_starts      i64 [S + 1]
#pragma once

#include <memory>

#include "components/latent_decoder.h"
#include "family/model.h"

namespace lf::deepseek {

family::ModelSpec model_spec(const components::LatentDecoderConfig& config);
std::unique_ptr<family::Blocks> decoder_blocks(const components::LatentDecoderConfig& config,
                                               const family::BlocksRequest& request);

}  // namespace lf::deepseek
