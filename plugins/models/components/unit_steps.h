// The chain of a component whose units hand one carried tensor on, and some of whose units have an edge that leaves.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "nn/chain.h"

namespace lf::components {

// One step for each of `units` (with a member `trains`), in order. gives(unit): an edge leaves it. run(unit, in): its
// outputs, as nn::Step::run; copied into every step.
template <typename Units, typename Gives, typename Run>
std::vector<nn::Step> unit_steps(const Units& units, const std::vector<nn::Recompute>& recompute, Gives gives,
                                 Run run) {
  std::vector<nn::Step> steps;
  for (uint32_t unit = 0; unit < units.size(); ++unit)
    steps.push_back({unit, recompute[unit], units[unit].trains, 0, gives(unit) ? size_t{1} : size_t{0},
                     [run, unit](const nn::Tensors& in) { return run(unit, in); }});
  return steps;
}

}  // namespace lf::components
