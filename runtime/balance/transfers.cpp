#include "balance/transfers.h"

namespace lf {
namespace {

std::vector<Transfer> in_order(std::vector<std::vector<uint32_t>> by_peer, int32_t rank, int32_t ranks_per_node) {
  const auto ranks = static_cast<int32_t>(by_peer.size());
  std::vector<Transfer> transfers;
  for (const bool same_node : {true, false})
    for (int32_t step = 1; step < ranks; ++step) {
      const int32_t peer = (rank + step) % ranks;
      if ((peer / ranks_per_node == rank / ranks_per_node) == same_node && !by_peer[peer].empty())
        transfers.push_back({peer, std::move(by_peer[peer])});
    }
  return transfers;
}

}  // namespace

Transfers transfers_of(const BalanceInput& input, const BalancePlan& plan, int32_t rank, int32_t ranks_per_node) {
  std::vector<std::vector<uint32_t>> sends(input.replicas), receives(input.replicas);
  const std::vector<int32_t>& arrival = input.parts.back().arrival_replica;
  const size_t first = plan.assignments.size() - input.n_samples;  // of the last part, which has one atom for a sample
  for (uint32_t sample = 0; sample < input.n_samples; ++sample) {
    const int32_t from = arrival[sample], to = plan.assignments[first + sample].replica;
    if (from == to) continue;
    if (from == rank) sends[to].push_back(sample);
    if (to == rank) receives[from].push_back(sample);
  }
  return {input.step, in_order(std::move(sends), rank, ranks_per_node),
          in_order(std::move(receives), rank, ranks_per_node)};
}

}  // namespace lf
