// The four operations over threads that play ranks.
#include "nn/parallel.h"

#include <barrier>
#include <functional>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace lf::nn {
namespace {

// What the ranks of a group have put down, and when all have.
struct Board {
  explicit Board(int64_t size) : slots(static_cast<size_t>(size)), all(size) {}
  std::vector<at::Tensor> slots;
  std::barrier<> all;
};

class ThreadGroup final : public Group {
 public:
  ThreadGroup(Board& board, int64_t rank) : board_(board), rank_(rank) {}
  int64_t size() const override { return static_cast<int64_t>(board_.slots.size()); }
  int64_t rank() const override { return rank_; }
  at::Tensor all_gather(const at::Tensor& own, at::IntArrayRef) override {
    return exchange(own, [](const auto& slots) { return at::cat(slots); });
  }
  at::Tensor reduce_scatter(const at::Tensor& all, at::IntArrayRef rows) override {
    return exchange(
        all, [&](const auto& slots) { return sum(slots).split_with_sizes(rows)[static_cast<size_t>(rank_)].clone(); });
  }
  at::Tensor all_to_all(const at::Tensor& rows, at::IntArrayRef, at::IntArrayRef) override {
    // Tests send one row to each.
    return exchange(rows, [&](const auto& slots) {
      std::vector<at::Tensor> mine;
      for (const at::Tensor& slot : slots) mine.push_back(slot.narrow(0, rank_, 1));
      return at::cat(mine);
    });
  }
  at::Tensor all_reduce(const at::Tensor& value) override {
    return exchange(value, [](const auto& slots) { return sum(slots); });
  }

 private:
  static at::Tensor sum(const std::vector<at::Tensor>& slots) { return at::stack(slots).sum(0); }
  template <typename Combine>
  at::Tensor exchange(const at::Tensor& own, Combine combine) {
    board_.slots[static_cast<size_t>(rank_)] = own;
    board_.all.arrive_and_wait();
    at::Tensor result = combine(board_.slots);
    board_.all.arrive_and_wait();
    return result;
  }
  Board& board_;
  int64_t rank_;
};

void on_ranks(int64_t size, const std::function<void(int64_t rank, const std::shared_ptr<Group>&)>& body) {
  Board board(size);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { body(rank, std::make_shared<ThreadGroup>(board, rank)); });
  for (std::thread& thread : threads) thread.join();
}

at::Tensor leaf(std::vector<double> values) {
  return at::tensor(values, at::kDouble).view({-1, 1}).requires_grad_(true);
}

TEST(ParallelOperations, of_one_rank_return_their_input_itself) {
  const at::Tensor x = leaf({1, 2});
  EXPECT_TRUE(gather_rows(x, {2}, nullptr).is_same(x));
  EXPECT_TRUE(scatter_sum(x, {2}, nullptr).is_same(x));
  EXPECT_TRUE(exchange_rows(x, {2}, {2}, nullptr).is_same(x));
  EXPECT_TRUE(sum_stat(x, nullptr).is_same(x));
}

TEST(ParallelOperations, gather_uneven_rows_and_sum_their_gradients_back) {
  on_ranks(2, [](int64_t rank, const auto& group) {
    const at::Tensor x = rank == 0 ? leaf({1, 2, 3}) : leaf({4});
    const at::Tensor y = gather_rows(x, {3, 1}, group);
    EXPECT_TRUE(y.flatten().equal(at::tensor({1, 2, 3, 4}, at::kDouble)));
    torch::autograd::backward({y}, {at::tensor({1, 10, 100, 1000}, at::kDouble).view({-1, 1}) * (rank + 1)});
    EXPECT_TRUE(
        x.grad().flatten().equal(rank == 0 ? at::tensor({3, 30, 300}, at::kDouble) : at::tensor({3000}, at::kDouble)));
  });
}

TEST(ParallelOperations, scatter_sums_and_gather_their_gradients_back) {
  on_ranks(2, [](int64_t rank, const auto& group) {
    const at::Tensor x = leaf({1, 2, 3});
    const at::Tensor y = scatter_sum(x, {1, 2}, group);
    EXPECT_TRUE(y.flatten().equal(rank == 0 ? at::tensor({2}, at::kDouble) : at::tensor({4, 6}, at::kDouble)));
    torch::autograd::backward({y}, {at::full_like(y, rank + 1.0)});
    EXPECT_TRUE(x.grad().flatten().equal(at::tensor({1, 2, 2}, at::kDouble)));
  });
}

TEST(ParallelOperations, exchange_rows_and_send_their_gradients_home) {
  on_ranks(2, [](int64_t rank, const auto& group) {
    const at::Tensor x = rank == 0 ? leaf({1, 2}) : leaf({3, 4});
    const at::Tensor y = exchange_rows(x, {1, 1}, {1, 1}, group);
    EXPECT_TRUE(y.flatten().equal(rank == 0 ? at::tensor({1, 3}, at::kDouble) : at::tensor({2, 4}, at::kDouble)));
    torch::autograd::backward({y}, {y.detach() * 10});
    EXPECT_TRUE(x.grad().equal(x.detach() * 10));
  });
}

TEST(ParallelOperations, sum_statistics_both_ways) {
  on_ranks(3, [](int64_t rank, const auto& group) {
    const at::Tensor x = leaf({static_cast<double>(rank)});
    const at::Tensor y = sum_stat(x, group);
    EXPECT_EQ(y.template item<double>(), 3);
    torch::autograd::backward({y}, {at::full_like(y, rank + 1.0)});
    EXPECT_EQ(x.grad().template item<double>(), 6);
  });
}

}  // namespace
}  // namespace lf::nn
