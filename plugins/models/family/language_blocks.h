// A language decoder as the last component of a family.
//
// Columns, N rows, S sequences:
//   input_ids, targets  i64 [N]          targets: -100 where nothing is learnt
//   position_ids        i64 [axes, N]
//   segment_starts      i64 [S + 1]
//   visual_rows         i64 [V]          absent: no rows of other components
//   loss_weights        f32 [N]          of each row's loss; absent: 1
#pragma once

#include "components/language_decoder.h"
#include "family/model.h"

namespace lf::family {

// Its features, boundary and parameters; edges are the family's.
ComponentSpec language_component(const components::LanguageDecoderConfig& config);
// "logits" and "token_loss", and the names of aux sums.
std::vector<PortSpec> language_outputs(const components::LanguageDecoderConfig& config);
std::vector<std::string> language_aux_names(const components::LanguageDecoderConfig& config);

std::unique_ptr<Blocks> language_blocks(const components::LanguageDecoderConfig& config, const BlocksRequest& request);

}  // namespace lf::family
