#include "family/position_bound.h"

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

void refuse_beyond_positions(std::span<const Sequence> sequences, const TextConfig& text) {
  if (!text.bounded_positions) return;
  for (const Sequence& sequence : sequences)
    if (sequence.rows() > text.max_position_embeddings)
      throw sdk::Failure(LF_E_DATA,
                         fmt::format("a sample of {} tokens: beyond max_position_embeddings {} this model's dynamic "
                                     "rotation changes, which is not built; lower data.max_tokens",
                                     sequence.rows(), text.max_position_embeddings));
}

}  // namespace lf::family
