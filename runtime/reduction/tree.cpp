#include "reduction/tree.h"

#include <algorithm>

namespace lf {

std::vector<TreeNode> canonical_nodes(int64_t begin, int64_t end) {
  std::vector<TreeNode> nodes;
  while (begin < end) {
    const auto fits = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(end - begin)));
    const int64_t aligned = begin == 0 ? fits : int64_t{1} << std::countr_zero(static_cast<uint64_t>(begin));
    nodes.push_back({begin, std::min(fits, aligned)});
    begin += nodes.back().leaves;
  }
  return nodes;
}

}  // namespace lf
