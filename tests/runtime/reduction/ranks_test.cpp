// The reducer over real groups of forked ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/rendezvous.h"
#include "runtime/reduction/step_of_leaves.h"
#include "support/file_store.h"
#include "support/run_ranks.h"

using lf::test::StepOfLeaves;

namespace {

std::string digest(const std::vector<std::vector<float>>& buffers) {
  uint64_t hash = 1469598103934665603ull;
  for (const auto& buffer : buffers) {
    for (float value : buffer) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211ull;
  }
  return std::to_string(hash);
}

std::vector<lf::test::RankOutcome> reduce_on(int ranks, lf::ReductionMode mode) {
  lf::test::ScratchFolder folder;
  return lf::test::run_ranks(ranks, [&](int rank) {
    lf::RendezvousConfig config;
    config.rank = rank;
    config.size = ranks;
    lf::Rendezvous rendezvous(config, std::make_shared<lf::test::FileStore>(folder.path()));
    auto group = rendezvous.group("gradients");
    StepOfLeaves step;
    step.leaves = 12;
    step.buffer_sizes = {50'003, 30'001};
    step.units = {{1, 20'000, 10'001}, {1, 0, 20'000},     {0, 40'000, 10'003},
                  {0, 20'000, 20'000}, {0, 19'000, 1'000}, {0, 0, 19'000}};
    std::vector<std::vector<float>> buffers;
    for (int64_t n : step.buffer_sizes) buffers.emplace_back(n, 0.0f);
    auto reducer = lf::make_reducer(step.config(*group, buffers, mode, 32 << 10));
    std::string text;
    for (int repeat = 0; repeat < 3; ++repeat) {
      step.run(*reducer, std::vector<int64_t>(static_cast<size_t>(ranks), 12 / ranks), rank, buffers);
      text = digest(buffers);
    }
    return text;
  });
}

}  // namespace

TEST(reducer_over_gloo, fixed_mode_gives_the_same_bits_on_1_2_3_and_4_ranks) {
  const std::string expected = reduce_on(1, lf::ReductionMode::kFixed)[0].text;
  for (int ranks : {2, 3, 4}) {
    for (const auto& outcome : reduce_on(ranks, lf::ReductionMode::kFixed)) {
      EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
      EXPECT_EQ(outcome.text, expected) << ranks << " ranks";
    }
  }
}

TEST(reducer_over_gloo, fast_mode_gives_all_ranks_the_same_bits) {
  for (int ranks : {2, 3, 4}) {
    const auto outcomes = reduce_on(ranks, lf::ReductionMode::kFast);
    for (const auto& outcome : outcomes) {
      EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
      EXPECT_EQ(outcome.text, outcomes[0].text) << ranks << " ranks";
    }
  }
}
