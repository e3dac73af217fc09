#include "reduction/tree.h"

#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "support/thread_group.h"

namespace {

// The definition, top down: a node of n leaves splits at the largest power of two below n.
double recursive_sum(const std::vector<double>& leaves, size_t begin, size_t end) {
  if (end - begin == 1) return leaves[begin];
  const size_t half = std::bit_ceil(end - begin) / 2;
  return recursive_sum(leaves, begin, begin + half) + recursive_sum(leaves, begin + half, end);
}

std::vector<double> awkward_values(size_t n) {
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(std::sin(static_cast<double>(i * i + 1)) * std::pow(10.0, i % 7));
  return values;
}

}  // namespace

TEST(tree, the_blocks_of_a_range_are_aligned_powers_of_two_that_cover_it) {
  for (int64_t begin = 0; begin < 40; ++begin) {
    for (int64_t end = begin; end < 70; ++end) {
      int64_t at = begin;
      const auto nodes = lf::canonical_nodes(begin, end);
      for (size_t i = 0; i < nodes.size(); ++i) {
        EXPECT_EQ(nodes[i].first, at);
        EXPECT_TRUE(std::has_single_bit(static_cast<uint64_t>(nodes[i].leaves)));
        EXPECT_EQ(nodes[i].first % nodes[i].leaves, 0);
        EXPECT_FALSE(i > 0 && lf::are_siblings(nodes[i - 1], nodes[i])) << "not as large as possible";
        at += nodes[i].leaves;
      }
      EXPECT_EQ(at, end);
    }
  }
}

TEST(tree, any_cut_into_ranks_adds_in_the_order_of_the_recursive_definition) {
  for (size_t n = 1; n <= 33; ++n) {
    const auto leaves = awkward_values(n);
    const double expected = recursive_sum(leaves, 0, n);
    for (size_t cut = 0; cut <= n; ++cut) {
      for (size_t second = cut; second <= n; second += 3) {
        std::vector<lf::TreeNode> nodes;
        std::vector<double> values;
        for (const auto& [begin, end] : {std::pair(size_t{0}, cut), std::pair(cut, second), std::pair(second, n)}) {
          for (const auto& node : lf::canonical_nodes(static_cast<int64_t>(begin), static_cast<int64_t>(end))) {
            nodes.push_back(node);
            values.push_back(
                recursive_sum(leaves, static_cast<size_t>(node.first), static_cast<size_t>(node.first + node.leaves)));
          }
        }
        lf::add_in_tree_order(nodes, [&](size_t into, size_t from) { values[into] += values[from]; });
        EXPECT_EQ(std::bit_cast<uint64_t>(values[0]), std::bit_cast<uint64_t>(expected)) << n << " " << cut;
      }
    }
  }
}
