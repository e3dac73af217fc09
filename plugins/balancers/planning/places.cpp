#include "planning/places.h"

#include <vector>

namespace lf::planning {

void number_atoms(const lf_balance_input& input, lf_assignment* out) {
  std::vector<int32_t> count;
  for (uint32_t p = 0; p < input.n_parts; ++p) {
    const lf_balance_part& part = input.parts[p];
    count.assign(static_cast<size_t>(part.replicas) * part.micro_batches, 0);
    for (uint64_t i = 0; i < part.n_atoms; ++i, ++out)
      out->order = count[static_cast<size_t>(out->replica) * part.micro_batches + out->micro_batch]++;
  }
}

void place_samples(const lf_balance_input& input, std::span<const int32_t> slot, lf_assignment* out) {
  for (uint32_t p = 0; p < input.n_parts; ++p) {
    const lf_balance_part& part = input.parts[p];
    if (part.tied != 0 || p + 1 == input.n_parts)
      for (uint64_t i = 0; i < part.n_atoms; ++i) {
        const int32_t place = slot[part.sample[i]];
        out[i] = lf_assignment{place / part.micro_batches, place % part.micro_batches, 0, 0};
      }
    out += part.n_atoms;
  }
}

}  // namespace lf::planning
