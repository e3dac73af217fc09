// The canonical tree in which leaves are added, whoever holds them: the reason why "fixed" reduction gives the same
// bits for any number of ranks.
//
// Leaves 0 .. L-1 are the step's micro-batches in arrival order. A node is an aligned block of 2^j leaves
// [k 2^j, (k+1) 2^j); it is the sum of its two halves, and where the right half lies beyond L it is the left half.
// Blocks that one rank's contiguous leaves fill can be added there, at most 2 log2 L of them remain, and the rest of
// the tree is added where the blocks meet. (Pairwise summation: Higham, "The accuracy of floating point summation",
// 1993.)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lf {

struct TreeNode {
  int64_t first = 0, leaves = 1;  // a power of two that divides `first`
  bool operator==(const TreeNode&) const = default;
};

// Two halves of one node, in this order.
constexpr bool are_siblings(const TreeNode& left, const TreeNode& right) {
  return left.leaves == right.leaves && left.first + left.leaves == right.first && left.first % (2 * left.leaves) == 0;
}

// The blocks that leaves [begin, end) fill, in order.
std::vector<TreeNode> canonical_nodes(int64_t begin, int64_t end);

// Adds nodes that cover all leaves from 0 on without a gap, in the tree's order, by calls of add(into, from): the sum
// of values[into] and values[from] goes into values[into]. The whole sum ends in the first.
template <typename Add>
void add_in_tree_order(std::span<const TreeNode> nodes, const Add& add) {
  std::vector<std::pair<TreeNode, size_t>> open;
  for (size_t i = 0; i < nodes.size(); ++i) {
    open.emplace_back(nodes[i], i);
    while (open.size() > 1 && are_siblings(open[open.size() - 2].first, open.back().first)) {
      add(open[open.size() - 2].second, open.back().second);
      open.pop_back();
      open.back().first.leaves *= 2;
    }
  }
  while (open.size() > 1) {  // the right halves are beyond the last leaf
    add(open[open.size() - 2].second, open.back().second);
    open.pop_back();
  }
}

}  // namespace lf
