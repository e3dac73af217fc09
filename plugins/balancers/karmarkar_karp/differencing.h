// Number partitioning into groups of equal size by differencing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lf::planning {

// The group, of [0, n_groups), of every weight. Groups get the same number of weights, up to one. Balanced largest
// differencing: weights in falling order are cut into tuples of n_groups; the two tuples of the widest spread are
// joined, largest with smallest, until one is left (Karmarkar, Karp 1982, "The differencing method of set
// partitioning"; for many groups of equal size: Michiels, Korst, Aarts, van Leeuwen 2003, "Performance ratios for the
// differencing method applied to the balanced number partitioning problem").
std::vector<int32_t> differenced(std::span<const int64_t> weights, int32_t n_groups);

}  // namespace lf::planning
