// Sparse attention in blocks of queries, against the whole matrices with LibTorch's autograd in f64: what cards and f64
// run. And that its memory is a line, not a square, of the length.
#include "nn/sparse_blocks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "block_check.h"

namespace lf::nn::test {
namespace {

const LatentShape kSizes{3, 6, 4, 5, 20, 0.31};
constexpr int64_t kIndexHeads = 2, kIndexSize = 7;
constexpr double kLeft = -std::numeric_limits<double>::infinity();

struct Whole {
  at::Tensor out, divergence;
};

// One segment as the report writes it, with everything of length x length.
Whole whole_matrices(const Tensors& in, const at::Tensor& kv_b, int64_t top_k) {
  const LatentShape& s = kSizes;
  const int64_t n = in[0].size(0);
  const at::Tensor earlier = at::ones({n, n}, at::kBool).tril();
  const at::Tensor each = at::relu(at::einsum("thd,sd->ths", {in[3].view({n, kIndexHeads, kIndexSize}), in[4]}) /
                                   std::sqrt(static_cast<double>(kIndexSize)));
  const at::Tensor scores = at::einsum("th,ths->ts", {in[5], each}).masked_fill(earlier.logical_not(), kLeft);
  at::Tensor selected = earlier;
  if (top_k > 0 && top_k < n) {
    const at::Tensor order = std::get<1>(scores.detach().sort(/*stable=*/true, -1, /*descending=*/true));
    selected = at::zeros_like(earlier).scatter_(1, order.narrow(1, 0, top_k), true).logical_and_(earlier);
  }
  const at::Tensor hidden = selected.logical_not();
  const at::Tensor kv = at::mm(in[1], kv_b.t()).view({n, s.heads, s.plain + s.value});
  const at::Tensor key = at::cat({kv.narrow(2, 0, s.plain), in[2].unsqueeze(1).expand({n, s.heads, s.rotated})}, 2);
  const at::Tensor products = at::einsum("thd,shd->hts", {in[0].view({n, s.heads, s.head_size()}), key}) * s.scale;
  const at::Tensor share = products.masked_fill(hidden, kLeft).softmax(-1), target = share.detach().mean(0);
  const at::Tensor log_guess = scores.masked_fill(hidden, kLeft).log_softmax(-1).masked_fill(hidden, 0);
  return {at::einsum("hts,shd->thd", {share, kv.narrow(2, s.plain, s.value)}).reshape({n, s.heads * s.value}),
          (at::xlogy(target, target) - target * log_guess).sum()};
}

// query, latent, shared key, the indexer's query, key and weights. coarse: whole numbers, so that scores are equal.
Tensors rows_of(int64_t n, at::ScalarType type, bool coarse) {
  Tensors rows;
  uint64_t seed = 30;
  for (const int64_t width :
       {int64_t{30}, int64_t{20}, int64_t{4}, kIndexHeads * kIndexSize, kIndexSize, kIndexHeads}) {
    const bool chooses = rows.size() >= 3;
    at::Tensor row = random({n, width}, seed++);
    if (coarse && chooses) row = row.clamp(-1, 1).round();
    rows.push_back(row.to(chooses && width == kIndexHeads && type == at::kBFloat16 ? at::kFloat : type));
  }
  return rows;
}

struct Case {
  int64_t top_k, block_rows;
  bool coarse;
  at::ScalarType type;
};

void equals_whole_matrices(const Case& c) {
  SCOPED_TRACE(testing::Message() << "top " << c.top_k << ", blocks of " << c.block_rows << ", coarse " << c.coarse
                                  << ", " << at::toString(c.type));
  const Segments segments{{0, 30, 30, 31, 70}};
  const int64_t n = segments.rows();
  const Tensors rows = rows_of(n, c.type, c.coarse);
  const at::Tensor kv_b = random({33, 20}, 50, 0.3).to(c.type), dout = random({n, 15}, 51).to(c.type);
  Tensors exact;
  for (const at::Tensor& row : rows) exact.push_back(row.to(at::kDouble).clone().requires_grad_(true));
  const at::Tensor exact_kv_b = kv_b.to(at::kDouble).clone().requires_grad_(true);
  Tensors outs, divergences;
  for (size_t s = 0; s < segments.count(); ++s) {
    Tensors own;
    for (const at::Tensor& row : exact)
      own.push_back(row.narrow(0, segments.starts[s], segments.starts[s + 1] - segments.starts[s]));
    const Whole whole = whole_matrices(own, exact_kv_b, c.top_k);
    outs.push_back(whole.out);
    divergences.push_back(whole.divergence);
  }
  const at::Tensor out = at::cat(outs), divergence = at::stack(divergences);
  torch::autograd::backward({out, divergence}, {dout.to(at::kDouble), at::ones_like(divergence)});

  const SparseInputs in{rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]};
  const IndexShape index{kIndexHeads, kIndexSize, c.top_k};
  const SparseForward got = sparse_forward_in_blocks(in, kv_b, kSizes, index, segments, true, true, c.block_rows);
  const SparseGradients back =
      sparse_backward_in_blocks(dout, in, kv_b, got, kSizes, index, segments, true, true, c.block_rows);
  const double allowed = tolerance(c.type);
  EXPECT_EQ(got.out.scalar_type(), c.type);
  EXPECT_LE(difference(got.out, out.detach()), allowed);
  EXPECT_LE(difference(got.divergence, divergence.detach()), allowed);
  const Tensors gradients = {back.query,       back.latent,    back.shared_key,
                             back.index_query, back.index_key, back.index_weight};
  for (size_t i = 0; i < gradients.size(); ++i)
    EXPECT_LE(difference(gradients[i], exact[i].grad()), allowed) << "gradient of input " << i;
  EXPECT_LE(difference(back.kv_b, exact_kv_b.grad()), allowed);
  const Tensors ahead = {got.dindex_query, got.dindex_key, got.dindex_weight};
  for (size_t i = 0; i < ahead.size(); ++i) EXPECT_TRUE(ahead[i].equal(gradients[3 + i])) << "ahead of backward " << i;
}

// Blocks of a few rows: threads would only wait for each other.
class SparseBlocks : public testing::Test {
 protected:
  SparseBlocks() { at::set_num_threads(1); }
  ~SparseBlocks() override { at::set_num_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};

TEST_F(SparseBlocks, equal_the_whole_matrices_in_results_divergence_and_all_gradients) {
  for (const int64_t top_k : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{16}, int64_t{1000}})
    equals_whole_matrices({top_k, 7, false, at::kDouble});
  for (const int64_t block_rows : {int64_t{1}, int64_t{0}}) equals_whole_matrices({5, block_rows, false, at::kDouble});
  equals_whole_matrices({5, 7, false, at::kFloat});
}

TEST_F(SparseBlocks, take_the_earlier_of_equal_scores) {
  for (const int64_t top_k : {int64_t{1}, int64_t{5}}) equals_whole_matrices({top_k, 7, true, at::kDouble});
}

// In bf16 scores decide in f32, of the same rounded numbers.
TEST_F(SparseBlocks, select_in_bf16_what_the_same_numbers_select_in_f64) {
  equals_whole_matrices({5, 7, false, at::kBFloat16});
}

class Peak : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now_ += size;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t bytes() const { return most_; }

 private:
  int64_t now_ = 0, most_ = 0;
};

// Bytes that forward and backward take beyond their inputs, by LibTorch's own account.
int64_t peak_bytes(int64_t n, int64_t top_k) {
  const Tensors rows = rows_of(n, at::kDouble, false);
  const at::Tensor kv_b = random({33, 20}, 50), dout = random({n, 15}, 51);
  const SparseInputs in{rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]};
  const IndexShape index{kIndexHeads, kIndexSize, top_k};
  const auto peak = std::make_shared<Peak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  const SparseForward made = sparse_forward_in_blocks(in, kv_b, kSizes, index, {{0, n}}, true, false, 8);
  sparse_backward_in_blocks(dout, in, kv_b, made, kSizes, index, {{0, n}}, true, true, 8);
  return peak->bytes();
}

TEST_F(SparseBlocks, need_memory_that_grows_with_the_length_and_not_with_its_square) {
  for (const int64_t top_k : {int64_t{0}, int64_t{64}}) {
    const int64_t half = peak_bytes(512, top_k), full = peak_bytes(1024, top_k);
    EXPECT_GT(half, 0);
    EXPECT_LE(full, half * 21 / 10) << "top " << top_k;
    EXPECT_LT(full, 1024 * 1024 * 8 / 2) << "top " << top_k << ": half of one matrix of length x length";
  }
}

}  // namespace
}  // namespace lf::nn::test
