// What a token's loss weighs, by the number n of supervised tokens of its sample: 1, 1/n or 1/sqrt(n). The loss is the
// weighted sum over the sum of weights, of all ranks and micro-batches, never rounded (arXiv:2412.05271, section 3.2:
// square averaging keeps long and short answers in balance).
#pragma once

#include <cmath>
#include <cstdint>

namespace lf::internvl {

enum class LossWeighting { kToken, kSample, kSquare };

// Of each supervised token; 0 where there is none.
inline double token_weight(LossWeighting weighting, int64_t supervised) {
  if (supervised == 0) return 0;
  const auto n = static_cast<double>(supervised);
  switch (weighting) {
    case LossWeighting::kSample:
      return 1 / n;
    case LossWeighting::kSquare:
      return 1 / std::sqrt(n);
    case LossWeighting::kToken:
      break;
  }
  return 1;
}

}  // namespace lf::internvl
