#include "nn/matmul.h"

#include <gtest/gtest.h>

#include "nn/cpu/bf16_products.h"
#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

constexpr double kF32Sums = 1e-5;  // of products of bf16 numbers, which f32 holds exactly

// Shapes whose longest axis is each of the three, over several slices of what is widened at a time; and none at all.
struct Shape {
  int64_t n, k, m;
};
const Shape kShapes[] = {{5, 7, 3}, {3000, 600, 40}, {40, 3000, 600}, {40, 600, 3000}, {1, 1, 1}, {0, 4, 4}, {4, 0, 4}};

TEST(Bf16Products, sum_in_f32_both_ways) {
  for (const auto way : {cpu::Bf16Way::kNative, cpu::Bf16Way::kWidened})
    for (const auto& [n, k, m] : kShapes)
      for (const bool add : {false, true}) {
        SCOPED_TRACE(std::to_string(n) + " x " + std::to_string(k) + " x " + std::to_string(m));
        const at::Tensor a = random({n, k}, 1).to(at::kBFloat16), b = random({k, m}, 2).to(at::kBFloat16);
        const at::Tensor start = random({n, m}, 3).to(at::kFloat), sum = start.clone();
        cpu::multiply(sum, a, b, add, way);
        at::Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble));
        if (add) expected = expected + start;
        EXPECT_LE(difference(sum, expected), kF32Sums);
        // The same from transposed views, as weights and gradients come.
        const at::Tensor again = start.clone();
        cpu::multiply(again, a.t().contiguous().t(), b.t().contiguous().t(), add, way);
        EXPECT_LE(difference(again, expected), kF32Sums);
      }
}

TEST(Matmul, adds_before_it_rounds_once) {
  if (cpu::bf16_way() == cpu::Bf16Way::kNative) GTEST_SKIP() << "oneDNN's product takes a bf16 addend here";
  // 1 + 2^-8 + 2^-8 is a bf16 number; 1 + 2^-8 alone rounds to 1.
  const at::Tensor a = at::full({1, 1}, 0.00390625, at::kBFloat16), one = at::ones({1, 1}, at::kBFloat16);
  const at::Tensor addend = at::full({1, 1}, 1.00390625, at::kFloat);
  EXPECT_EQ(multiply(a, one, Second::kTransposed, addend).item<float>(), 1.0078125f);
}

TEST(Matmul, adds_transposed_products_without_rounding_them) {
  const at::Tensor a = random({50, 6}, 1).to(at::kBFloat16), b = random({50, 9}, 2).to(at::kBFloat16);
  const at::Tensor sum = at::ones({6, 9}, at::kFloat);
  add_transposed_product(sum, a, b);
  EXPECT_LE(difference(sum, at::mm(a.t().to(at::kDouble), b.to(at::kDouble)) + 1), kF32Sums);
}

}  // namespace
}  // namespace lf::nn::test
