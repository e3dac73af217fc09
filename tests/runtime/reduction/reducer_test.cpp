#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "runtime/reduction/step_of_leaves.h"
#include "support/thread_group.h"

using lf::test::dealings;
using lf::test::StepOfLeaves;
using lf::test::with_thread_ranks;

TEST(reducer, fixed_mode_gives_the_bits_of_the_tree_for_any_number_of_ranks_and_any_dealing) {
  for (int64_t leaves : {1, 2, 3, 5, 7, 8, 12, 17}) {
    StepOfLeaves step;
    step.leaves = leaves;
    auto expected = step.new_buffers();
    for (uint32_t u = 0; u < step.units.size(); ++u) {
      const auto& unit = step.units[u];
      for (int64_t e = unit.offset; e < unit.offset + unit.length; ++e) {
        expected[unit.buffer][static_cast<size_t>(e)] = step.tree_sum(u, e, 0, leaves);
      }
    }
    for (int ranks : {1, 2, 3, 4, 8}) {
      for (const auto& dealing : dealings(leaves, ranks)) {
        for (int64_t bucket_bytes : {500, 1 << 20}) {
          with_thread_ranks(ranks, [&](lf::Group& group) {
            auto buffers = step.new_buffers();
            auto reducer = lf::make_reducer(step.config(group, buffers, lf::ReductionMode::kFixed, bucket_bytes));
            for (int repeat = 0; repeat < 2; ++repeat) {  // what a step leaves behind must not reach the next
              const auto result = step.run(*reducer, dealing, group.rank(), buffers);
              EXPECT_EQ(result.has_gradient[4], 0);
              int wrong = 0;
              for (size_t buffer = 0; buffer < buffers.size(); ++buffer) {
                for (size_t e = 0; e < buffers[buffer].size(); ++e) {
                  wrong += std::bit_cast<uint32_t>(buffers[buffer][e]) != std::bit_cast<uint32_t>(expected[buffer][e]);
                }
              }
              EXPECT_EQ(wrong, 0) << leaves << " leaves, " << ranks << " ranks, buckets of " << bucket_bytes;
            }
          });
        }
      }
    }
  }
}

TEST(reducer, fast_mode_gives_the_sum_on_every_rank_and_says_who_had_gradients) {
  StepOfLeaves step;
  step.leaves = 6;
  for (int ranks : {1, 2, 3, 4}) {
    for (const auto& dealing : dealings(step.leaves, ranks)) {
      with_thread_ranks(ranks, [&](lf::Group& group) {
        auto buffers = step.new_buffers();
        auto reducer = lf::make_reducer(step.config(group, buffers, lf::ReductionMode::kFast, 1200));
        for (int repeat = 0; repeat < 2; ++repeat) {
          const auto result = step.run(*reducer, dealing, group.rank(), buffers);
          EXPECT_THAT(result.has_gradient, ::testing::ElementsAre(1, 1, 1, 1, 0, 1));
          EXPECT_GE(result.exposed_seconds, 0);
          for (uint32_t u = 0; u < step.units.size(); ++u) {
            const auto& unit = step.units[u];
            for (int64_t e = unit.offset; e < unit.offset + unit.length; e += 11) {
              double expected = 0, magnitude = 0;
              for (int64_t leaf = 0; leaf < step.leaves; ++leaf) {
                expected += step.leaf_value(u, e, leaf);
                magnitude += std::abs(step.leaf_value(u, e, leaf));
              }
              EXPECT_NEAR(buffers[unit.buffer][static_cast<size_t>(e)], expected, 1e-6 * magnitude);
            }
          }
        }
      });
    }
  }
}

TEST(reducer, a_bucket_leaves_while_later_units_are_still_computed) {
  // Rank 0 finishes only when rank 1 has joined the first all-reduce, which rank 1 does before its own last unit.
  StepOfLeaves step;
  step.leaves = 2;
  with_thread_ranks(2, [&](lf::Group& group) {
    struct Counting final : lf::Group {
      explicit Counting(lf::Group& inner) : inner(inner) {}
      int rank() const override { return inner.rank(); }
      int size() const override { return inner.size(); }
      const std::string& name() const override { return inner.name(); }
      lf::Ticket all_reduce_async(void* data, int64_t count, int32_t dtype, int32_t reduction) override {
        ++calls;
        return inner.all_reduce_async(data, count, dtype, reduction);
      }
      lf::Ticket all_to_all_async(const void* in, std::span<const int64_t> send, void* out,
                                  std::span<const int64_t> receive) override {
        ++calls;
        return inner.all_to_all_async(in, send, out, receive);
      }
      lf::Ticket all_gather_async(const void* in, void* out, int64_t bytes) override {
        return inner.all_gather_async(in, out, bytes);
      }
      lf::Ticket broadcast_async(void* data, int64_t bytes, int root) override {
        return inner.broadcast_async(data, bytes, root);
      }
      void barrier() override { inner.barrier(); }
      lf::Group& inner;
      int calls = 0;
    };
    for (auto mode : {lf::ReductionMode::kFast, lf::ReductionMode::kFixed}) {
      Counting counting(group);
      auto buffers = step.new_buffers();
      auto reducer = lf::make_reducer(step.config(counting, buffers, mode, 64));
      reducer->begin_step(std::vector<int64_t>{1, 1});
      reducer->unit_done(1);
      EXPECT_EQ(counting.calls, 0) << "unit 0 comes first in the order of all ranks";
      reducer->unit_done(0);
      EXPECT_GT(counting.calls, 0);
      const int before = counting.calls;
      reducer->unit_done(2);
      EXPECT_GT(counting.calls, before);
      reducer->leaf_done();
      reducer->finish();
    }
  });
}

TEST(reducer, a_leaf_too_many_or_too_few_is_an_error) {
  StepOfLeaves step;
  auto group = lf::local_group("one");
  auto buffers = step.new_buffers();
  auto reducer = lf::make_reducer(step.config(*group, buffers, lf::ReductionMode::kFast, 64));
  reducer->begin_step(std::vector<int64_t>{1});
  EXPECT_THROW(reducer->finish(), lf::Error);
  reducer->leaf_done();
  EXPECT_THROW(reducer->leaf_done(), lf::Error);
}

TEST(reducer, a_group_of_one_leaves_the_buffer_as_backward_wrote_it) {
  StepOfLeaves step;
  auto group = lf::local_group("one");
  for (auto mode : {lf::ReductionMode::kFast, lf::ReductionMode::kFixed}) {
    auto buffers = step.new_buffers();
    auto reducer = lf::make_reducer(step.config(*group, buffers, mode, 1 << 20));
    step.run(*reducer, {1}, 0, buffers);
    for (const auto& unit : step.units) {
      for (int64_t e = unit.offset; e < unit.offset + unit.length; ++e) {
        const auto u = static_cast<uint32_t>(&unit - step.units.data());
        EXPECT_EQ(buffers[unit.buffer][static_cast<size_t>(e)], step.leaf_value(u, e, 0));
      }
    }
  }
}
