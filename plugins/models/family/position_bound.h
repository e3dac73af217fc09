// Sequences that are longer than a decoder's rotation is built for.
#pragma once

#include <span>

#include "family/sequence.h"
#include "family/text_config.h"

namespace lf::family {

// Throws LF_E_DATA where a sequence has more rows than max_position_embeddings of a model whose rotation changes there
// (TextConfig::bounded_positions). Every processor calls it for what it makes, in features and in collate.
void refuse_beyond_positions(std::span<const Sequence> sequences, const TextConfig& text);

}  // namespace lf::family
