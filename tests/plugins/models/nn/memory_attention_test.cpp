#include "nn/memory_attention.h"

#include <cmath>
#include <numbers>

#include "nn/timestep.h"
#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

// Three segments: with a longer memory than rows of their own, without any, with a shorter one.
const std::vector<int64_t> kMemory = {60, 0, 3}, kOwn = {5, 50, 7};
constexpr int64_t kHeadSize = 12;

at::Tensor rotated(const at::Tensor& x, const RotaryTable& table) {  // [rows, heads, D]
  const auto halves = x.chunk(2, -1);
  const at::Tensor c = table.cosine.unsqueeze(1), s = table.sine.unsqueeze(1);
  return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

// Segment by segment, as the formula says.
at::Tensor reference(const at::Tensor& qkv, const at::Tensor& memory, const AttentionShape& shape,
                     const RotarySpec& rotary) {
  const int64_t d = shape.head_size, h = shape.heads, k = shape.kv_heads;
  Tensors results;
  int64_t first_memory = 0, first_own = 0;
  for (size_t s = 0; s < kOwn.size(); ++s) {
    const at::Tensor own = qkv.slice(0, first_own, first_own + kOwn[s]);
    const at::Tensor kept = memory.slice(0, first_memory, first_memory + kMemory[s]);
    first_own += kOwn[s];
    first_memory += kMemory[s];
    const int64_t rows = kOwn[s] + kMemory[s];
    const at::Tensor positions = at::arange(rows, at::kLong).unsqueeze(0);
    const RotaryTable all = rotary_table(rotary, positions),
                      last = rotary_table(rotary, positions.slice(1, kMemory[s], rows));
    const at::Tensor keys = at::cat({kept.narrow(1, 0, k * d), own.narrow(1, h * d, k * d)}).view({rows, k, d}),
                     values = at::cat({kept.narrow(1, k * d, k * d), own.narrow(1, (h + k) * d, k * d)});
    const at::Tensor q = rotated(own.narrow(1, 0, h * d).reshape({kOwn[s], h, d}), last).transpose(0, 1);
    const at::Tensor seen = rotated(keys, all).transpose(0, 1).repeat_interleave(h / k, 0);
    const at::Tensor shown = values.view({rows, k, d}).transpose(0, 1).repeat_interleave(h / k, 0);
    const at::Tensor shares = at::softmax(at::matmul(q, seen.transpose(1, 2)) / std::sqrt(static_cast<double>(d)), -1);
    results.push_back(at::matmul(shares, shown).transpose(0, 1).reshape({kOwn[s], h * d}));
  }
  return at::cat(results, 0);
}

TEST(MemoryAttention, sees_kept_keys_and_values_and_its_own_rows) {
  const RotarySpec rotary = plain_rotary(kHeadSize, 100);
  const MemoryLayout layout = memory_layout(kMemory, kOwn, rotary, at::kCPU);
  for (const int64_t kv_heads : {1, 2, 4}) {
    const AttentionShape shape{.heads = 4, .kv_heads = kv_heads, .head_size = kHeadSize};
    check_all({{random({62, shape.width()}, 1), random({63, 2 * kv_heads * kHeadSize}, 2)},
               {},
               [&](const Tensors& in, const auto&) { return memory_attention(in[0], in[1], shape, layout); },
               [&](const Tensors& in, const Tensors&) { return reference(in[0], in[1], shape, rotary); }},
              "key/value heads " + std::to_string(kv_heads));
  }
}

TEST(MemoryAttention, needs_no_memory) {
  const AttentionShape shape{.heads = 2, .kv_heads = 1, .head_size = kHeadSize};
  const RotarySpec rotary = plain_rotary(kHeadSize, 100);
  const MemoryLayout layout = memory_layout({0, 0}, {20, 3}, rotary, at::kCPU);
  check_all(
      {{random({23, shape.width()}, 1)},
       {},
       [&](const Tensors& in, const auto&) { return memory_attention(in[0], {}, shape, layout); },
       [&](const Tensors& in, const Tensors&) { return attention(in[0], shape, {}, layout.own_rotary, layout.own); }},
      "no memory");
}

TEST(MemoryAttention, refuses_a_layout_of_other_rows) {
  const AttentionShape shape{.heads = 2, .kv_heads = 1, .head_size = kHeadSize};
  const MemoryLayout layout = memory_layout({4}, {3}, plain_rotary(kHeadSize, 100), at::kCPU);
  EXPECT_THROW(memory_attention(at::zeros({3, shape.width()}), {}, shape, layout), c10::Error);
}

TEST(PeriodEmbedding, turns_once_per_period_from_the_shortest_to_the_longest) {
  const at::Tensor time = at::tensor({0.25f, 1.0f});
  const at::Tensor made = period_embedding(time, 6, 4e-3, 4);
  ASSERT_EQ(made.scalar_type(), at::kFloat);
  const double periods[] = {4e-3, std::sqrt(4e-3 * 4), 4};
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t j = 0; j < 3; ++j) {
      const double angle = 2 * std::numbers::pi * (row == 0 ? 0.25 : 1.0) / periods[j];
      EXPECT_NEAR(made[row][j].item<double>(), std::sin(angle), 1e-6);
      EXPECT_NEAR(made[row][3 + j].item<double>(), std::cos(angle), 1e-6);
    }
}

}  // namespace
}  // namespace lf::nn::test
