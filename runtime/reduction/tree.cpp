#include "reduction/tree.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"

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

std::vector<double> sum_over_leaves(Exchange& exchange, std::span<const double> own, size_t columns) {
  const auto all = exchange.all_gather(std::string(reinterpret_cast<const char*>(own.data()), own.size_bytes()));
  std::vector<double> values;
  for (const std::string& bytes : all) {
    if (bytes.size() % (columns * sizeof(double)) != 0) {
      fail(Exit::kBug, "sums over leaves: expected rows of {} numbers, got {} bytes", columns, bytes.size());
    }
    const size_t at = values.size();
    values.resize(at + bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(values.data() + at, bytes.data(), bytes.size());
  }
  if (values.empty()) return std::vector<double>(columns, 0.0);
  std::vector<TreeNode> leaves(values.size() / columns);
  for (size_t i = 0; i < leaves.size(); ++i) leaves[i] = {static_cast<int64_t>(i), 1};
  add_in_tree_order(leaves, [&](size_t into, size_t from) {
    for (size_t c = 0; c < columns; ++c) values[into * columns + c] += values[from * columns + c];
  });
  values.resize(columns);
  return values;
}

}  // namespace lf
