// What a family's decoder is, from the text half of its config.json and the job's [model.options].
#pragma once

#include "components/language_decoder.h"
#include "family/json_fields.h"
#include "family/text_config.h"

namespace lf::family {

// [model.options] router_aux_loss: "none", "sample" or "batch" (components::BalanceLoss). Throws sdk::Failure
// (LF_E_INVALID) naming the option.
components::BalanceLoss read_router_aux_loss(JsonFields& options, bool has_experts);

// Sizes, norms, experts and, for one position axis, the rotation; names are the family's.
components::LanguageDecoderConfig language_decoder(const TextConfig& text, components::BalanceLoss balance);

}  // namespace lf::family
