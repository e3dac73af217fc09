#include "balance/transfers.h"

#include <map>

#include <gmock/gmock.h>

#include "balance/random.h"

namespace lf {
namespace {

using ::testing::ElementsAre;

// Samples with an arrival and a planned replica each, one micro-batch.
std::pair<BalanceInput, BalancePlan> moves(int32_t replicas, std::vector<int32_t> from, std::vector<int32_t> to) {
  BalanceInput input;
  input.step = 5;
  input.replicas = replicas;
  input.n_samples = from.size();
  input.parts.resize(1);
  input.parts[0].arrival_replica = std::move(from);
  BalancePlan plan;
  for (const int32_t replica : to) plan.assignments.push_back({replica, 0, 0, 0});
  return {input, plan};
}

TEST(Transfers, there_is_one_message_for_each_peer_and_what_stays_is_in_none) {
  const auto [input, plan] = moves(3, {0, 0, 0, 0, 1, 2}, {0, 1, 2, 1, 1, 0});
  const Transfers of0 = transfers_of(input, plan, 0, 8);
  EXPECT_EQ(of0.step, 5);
  ASSERT_EQ(of0.sends.size(), 2u);
  EXPECT_EQ(of0.sends[0].peer, 1);
  EXPECT_THAT(of0.sends[0].samples, ElementsAre(1, 3));
  EXPECT_EQ(of0.sends[1].peer, 2);
  EXPECT_THAT(of0.sends[1].samples, ElementsAre(2));
  ASSERT_EQ(of0.receives.size(), 1u);
  EXPECT_EQ(of0.receives[0].peer, 2);
  EXPECT_THAT(of0.receives[0].samples, ElementsAre(5));
}

TEST(Transfers, peers_of_the_same_node_come_first) {
  // Rank 2 of nodes {0, 1, 2, 3} and {4, 5, 6, 7} sends one sample to each other rank.
  const auto [input, plan] = moves(8, std::vector<int32_t>(8, 2), {0, 1, 2, 3, 4, 5, 6, 7});
  std::vector<int32_t> peers;
  for (const Transfer& send : transfers_of(input, plan, 2, 4).sends) peers.push_back(send.peer);
  EXPECT_THAT(peers, ElementsAre(3, 0, 1, 4, 5, 6, 7));
}

TEST(Transfers, what_one_rank_sends_the_other_receives) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const auto replicas = static_cast<int32_t>(1 + random.below(12));
    std::vector<int32_t> from, to;
    for (uint64_t i = random.below(100); i > 0; --i) {
      from.push_back(static_cast<int32_t>(random.below(replicas)));
      to.push_back(static_cast<int32_t>(random.below(replicas)));
    }
    const auto [input, plan] = moves(replicas, from, to);
    std::map<std::pair<int32_t, int32_t>, std::vector<uint32_t>> sent, received;
    for (int32_t rank = 0; rank < replicas; ++rank) {
      const Transfers transfers = transfers_of(input, plan, rank, 4);
      for (const Transfer& send : transfers.sends) sent[{rank, send.peer}] = send.samples;
      for (const Transfer& receive : transfers.receives) received[{receive.peer, rank}] = receive.samples;
    }
    EXPECT_EQ(sent, received);
    size_t moved = 0, expected = 0;
    for (const auto& [pair, samples] : sent) moved += samples.size();
    for (size_t i = 0; i < from.size(); ++i) expected += from[i] != to[i];
    EXPECT_EQ(moved, expected);
  }
}

}  // namespace
}  // namespace lf
