// Latent attention, dense and sparse, against the formulas with LibTorch's operators, and what no formula shows: that
// the fused way selects, learns and adds the same whatever the threads and the instruction set.
#include <map>

#include <ATen/Parallel.h>

#include "block_check.h"
#include "nn/cpu/kernels.h"
#include "nn/cpu/row_gaps.h"
#include "nn/sparse_attention.h"

namespace lf::nn::test {
namespace {

const LatentShape kShape{3, 6, 4, 5, 20, 0.31};

at::Tensor later(int64_t n) { return at::ones({n, n}, at::kBool).triu(1); }
constexpr double kNever = -std::numeric_limits<double>::infinity();

// Dense attention, or within `selected` of each segment.
at::Tensor formula(const at::Tensor& query, const at::Tensor& expanded, const at::Tensor& shared,
                   const Segments& segments, const std::vector<at::Tensor>& selected = {}) {
  const LatentShape& s = kShape;
  Tensors outs;
  for (size_t i = 0; i < segments.count(); ++i) {
    const int64_t begin = segments.starts[i], n = segments.starts[i + 1] - begin;
    const auto cut = [&](const at::Tensor& t) { return t.narrow(0, begin, n); };
    const at::Tensor kv = cut(expanded).view({n, s.heads, s.plain + s.value});
    const at::Tensor key =
        at::cat({kv.narrow(2, 0, s.plain), cut(shared).unsqueeze(1).expand({n, s.heads, s.rotated})}, 2);
    at::Tensor scores = at::einsum("thd,shd->hts", {cut(query).view({n, s.heads, s.plain + s.rotated}), key}) * s.scale;
    scores = scores.masked_fill(selected.empty() ? later(n) : selected[i].logical_not(), kNever);
    outs.push_back(at::einsum("hts,shd->thd", {scores.softmax(-1), kv.narrow(2, s.plain, s.value)})
                       .reshape({n, s.heads * s.value}));
  }
  return at::cat(outs);
}

TEST(LatentAttention, equals_the_formula_in_every_dtype_and_packing) {
  for (const Segments& segments : {Segments{{0, 70}}, Segments{{0, 9, 9, 41, 42}}}) {
    const int64_t n = segments.rows();
    check_all({.inputs = {random({n, 30}, 1), random({n, 33}, 2), random({n, 4}, 3)},
               .parameters = {},
               .block = [&](const Tensors& in,
                            const auto&) { return latent_attention(in[0], in[1], in[2], kShape, segments); },
               .formula = [&](const Tensors& in, const Tensors&) { return formula(in[0], in[1], in[2], segments); }},
              "latent attention");
  }
}

struct Sparse {
  explicit Sparse(int64_t n, at::ScalarType type, uint64_t seed = 10) {
    for (const int64_t width : {int64_t{30}, int64_t{20}, int64_t{4}, 2 * kIndex.size, kIndex.size, int64_t{2}})
      inputs.push_back(random({n, width}, seed++).to(type).detach().requires_grad_(true));
    const at::Tensor value = random({33, 20}, seed, 0.3).to(type).contiguous();
    kv_b = {value, at::zeros_like(value, type == at::kDouble ? at::kDouble : at::kFloat)};
  }
  IndexedAttention run(const Segments& segments, int64_t top_k, bool divergence = true,
                       bool gives_query_up = false) const {
    return sparse_attention({inputs[0], inputs[1], inputs[2], inputs[3], inputs[4], inputs[5], gives_query_up}, kv_b,
                            kShape, {2, kIndex.size, top_k}, segments, divergence);
  }
  static constexpr IndexShape kIndex{2, 7, 0};
  Tensors inputs;
  Parameter kv_b;
};

// As difference(), for gradients that may truly be 0: one selected row has all the weight, whatever its score.
double apart(const at::Tensor& got, const at::Tensor& wanted) {
  const at::Tensor exact = wanted.detach().to(at::kDouble);
  return (got.detach().to(at::kDouble) - exact).abs().max().item<double>() /
         std::max(exact.abs().max().item<double>(), 0.1);
}

std::vector<at::Tensor> selections(const Sparse& s, const Segments& segments, int64_t top_k) {
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < segments.count(); ++i) {
    const int64_t begin = segments.starts[i], n = segments.starts[i + 1] - begin;
    const auto cut = [&](size_t k) { return s.inputs[k].detach().narrow(0, begin, n); };
    all.push_back(select_rows(cut(3), cut(4), cut(5), {2, Sparse::kIndex.size, top_k}).selected);
  }
  return all;
}

// The fused way (f32) against the composed one in f64 on the same numbers: result, divergence, every gradient.
TEST(SparseAttention, fused_and_composed_agree_in_results_divergence_and_all_gradients) {
  for (const int64_t top_k : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{16}, int64_t{1000}})
    for (const Segments& segments : {Segments{{0, 90}}, Segments{{0, 30, 30, 31, 90}}}) {
      SCOPED_TRACE(testing::Message() << "top " << top_k << ", " << segments.count() << " segments");
      const Sparse fused(90, at::kFloat);
      Sparse exact(90, at::kFloat);
      for (at::Tensor& t : exact.inputs) t = t.detach().to(at::kDouble).requires_grad_(true);
      exact.kv_b = {exact.kv_b.value.to(at::kDouble), at::zeros({33, 20}, at::kDouble)};
      const IndexedAttention got = fused.run(segments, top_k), wanted = exact.run(segments, top_k);
      EXPECT_LE(difference(got.out, wanted.out.detach()), 1e-5);
      EXPECT_LE(difference(got.divergence, wanted.divergence.detach()), 1e-5);
      const at::Tensor seed = random(wanted.out.sizes(), 77), share = random(wanted.divergence.sizes(), 78);
      torch::autograd::backward({got.out, got.divergence}, {seed.to(at::kFloat), share.to(at::kFloat)});
      torch::autograd::backward({wanted.out, wanted.divergence}, {seed, share});
      for (size_t i = 0; i < fused.inputs.size(); ++i)
        EXPECT_LE(apart(fused.inputs[i].grad(), exact.inputs[i].grad()), 2e-5) << "input " << i;
      EXPECT_LE(difference(fused.kv_b.gradient, exact.kv_b.gradient), 2e-5);
    }
}

TEST(SparseAttention, attends_to_what_is_selected_and_to_nothing_else) {
  const Segments segments{{0, 20, 55}};
  const Sparse s(55, at::kFloat);
  const at::Tensor expanded = at::mm(s.inputs[1].detach(), s.kv_b.value.t());
  const at::Tensor wanted = formula(s.inputs[0].detach().to(at::kDouble), expanded.to(at::kDouble),
                                    s.inputs[2].detach().to(at::kDouble), segments, selections(s, segments, 6));
  EXPECT_LE(difference(s.run(segments, 6).out, wanted), 1e-5);
}

TEST(SparseAttention, with_room_for_every_row_equals_dense_attention) {
  const Segments segments{{0, 40}};
  const Sparse s(40, at::kFloat);
  const at::Tensor expanded = at::mm(s.inputs[1].detach(), s.kv_b.value.t());
  const at::Tensor dense = latent_attention(s.inputs[0].detach(), expanded, s.inputs[2].detach(), kShape, segments);
  EXPECT_LE(difference(s.run(segments, 40).out, dense.to(at::kDouble)), 1e-5);
  EXPECT_LE(difference(s.run(segments, 0).out, dense.to(at::kDouble)), 1e-5);
}

TEST(SparseAttention, a_sequence_gives_the_same_packed_among_others_as_alone) {
  const Sparse s(60, at::kFloat);
  const IndexedAttention packed = s.run({{0, 13, 47, 60}}, 5);
  Sparse alone = s;
  for (at::Tensor& t : alone.inputs) t = t.detach().narrow(0, 13, 34).contiguous();
  const IndexedAttention one = alone.run({{0, 34}}, 5);
  EXPECT_TRUE(packed.out.narrow(0, 13, 34).equal(one.out));
  EXPECT_FLOAT_EQ(packed.divergence[1].item<float>(), one.divergence[0].item<float>());
}

TEST(SparseAttention, of_equal_scores_the_earlier_rows_are_selected) {
  Sparse s(30, at::kFloat);
  s.inputs[3].detach().zero_();  // every score is 0
  const auto selected = selections(s, {{0, 30}}, 4)[0];
  for (int64_t t = 4; t < 30; ++t) {
    EXPECT_TRUE(selected[t].narrow(0, 0, 4).all().item<bool>()) << t;
    EXPECT_EQ(selected[t].sum().item<int64_t>(), 4) << t;
  }
  const at::Tensor expanded = at::mm(s.inputs[1].detach(), s.kv_b.value.t());
  const at::Tensor wanted = formula(s.inputs[0].detach().to(at::kDouble), expanded.to(at::kDouble),
                                    s.inputs[2].detach().to(at::kDouble), {{0, 30}}, {selected});
  EXPECT_LE(difference(s.run({{0, 30}}, 4).out, wanted), 1e-5);
}

TEST(SparseAttention, gives_the_indexer_nothing_from_attention_and_attention_nothing_from_the_divergence) {
  const Segments segments{{0, 40}};
  const Sparse attends(40, at::kFloat), learns(40, at::kFloat);
  const IndexedAttention a = attends.run(segments, 6), b = learns.run(segments, 6);
  torch::autograd::backward({a.out}, {at::ones_like(a.out)});
  torch::autograd::backward({b.divergence}, {at::ones_like(b.divergence)});
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(attends.inputs[i].grad().defined(), i < 3) << "input " << i;
    EXPECT_EQ(learns.inputs[i].grad().defined(), i >= 3) << "input " << i;
  }
  EXPECT_EQ(learns.kv_b.gradient.abs().sum().item<float>(), 0);
}

// A teacher that is normalised over all rows, or over another set than the scores are, has no such minimum.
TEST(SparseAttention, the_divergence_is_zero_with_zero_gradient_where_the_indexer_agrees) {
  Sparse s(30, at::kFloat);
  s.inputs[0].detach().zero_();  // uniform attention
  s.inputs[3].detach().zero_();  // uniform scores
  for (const int64_t top_k : {int64_t{0}, int64_t{7}}) {
    const IndexedAttention made = s.run({{0, 30}}, top_k);
    EXPECT_NEAR(made.divergence.item<float>(), 0, 1e-5);
    torch::autograd::backward({made.divergence}, {at::ones_like(made.divergence)});
    EXPECT_LE(s.inputs[5].grad().abs().max().item<float>(), 1e-6);
  }
}

TEST(SparseAttention, has_the_same_bits_for_one_and_for_several_threads) {
  const int threads = at::get_num_threads();
  const Segments segments{{0, 1300, 1400}};
  std::vector<Tensors> results;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    const Sparse s(1400, at::kFloat);
    const IndexedAttention made = s.run(segments, 32);
    torch::autograd::backward({made.out, made.divergence}, {at::ones_like(made.out), at::ones_like(made.divergence)});
    Tensors all = {made.out.detach(), made.divergence.detach(), s.kv_b.gradient};
    for (const at::Tensor& t : s.inputs) all.push_back(t.grad());
    results.push_back(all);
  }
  at::set_num_threads(threads);
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(results[0][i].equal(results[1][i])) << "tensor " << i;
}

// Row by row as the report writes it, both sides normalised over the selected rows.
TEST(SparseAttention, the_teacher_is_over_the_selected_rows_alone) {
  const int64_t n = 30, top_k = 5;
  const Sparse s(n, at::kFloat);
  const LatentShape& shape = kShape;
  const auto wide = [&](size_t i) { return s.inputs[i].detach().to(at::kDouble); };
  const Selection rows =
      select_rows(s.inputs[3].detach(), s.inputs[4].detach(), s.inputs[5].detach(), {2, Sparse::kIndex.size, top_k});
  const at::Tensor plain_keys = at::mm(wide(1), s.kv_b.value.to(at::kDouble).t())
                                    .view({n, shape.heads, shape.plain + shape.value})
                                    .narrow(2, 0, shape.plain);
  double wanted = 0;
  for (int64_t t = 0; t < n; ++t) {
    const at::Tensor picked = rows.selected[t].nonzero().squeeze(1);
    ASSERT_EQ(picked.size(0), std::min(t + 1, top_k));
    at::Tensor teacher = at::zeros({picked.size(0)}, at::kDouble);
    for (int64_t h = 0; h < shape.heads; ++h) {
      const at::Tensor keys = at::cat({plain_keys.select(1, h), wide(2)}, 1).index_select(0, picked);
      const at::Tensor query = wide(0)[t].narrow(0, h * shape.head_size(), shape.head_size());
      teacher = teacher + (at::mv(keys, query) * shape.scale).softmax(0);
    }
    teacher = teacher / teacher.sum();
    const at::Tensor learner = rows.scores[t].index_select(0, picked).to(at::kDouble).log_softmax(0);
    wanted += (teacher * (teacher.log() - learner)).sum().item<double>();
  }
  EXPECT_NEAR(s.run({{0, n}}, top_k).divergence.item<float>(), wanted, 1e-5 * wanted);
}

// Two losses that are run back together, one after the other, or alone leave the same gradients.
TEST(SparseAttention, gradients_of_attention_and_divergence_add_up_however_they_come) {
  const Segments segments{{0, 17, 60}};
  for (const int64_t top_k : {int64_t{0}, int64_t{6}}) {
    const Sparse together(60, at::kFloat), attends(60, at::kFloat), learns(60, at::kFloat);
    const IndexedAttention a = together.run(segments, top_k), b = attends.run(segments, top_k),
                           c = learns.run(segments, top_k);
    const at::Tensor each = at::tensor({0.5, 3.0}, at::kFloat);
    torch::autograd::backward({a.out, a.divergence}, {at::ones_like(a.out), each});
    torch::autograd::backward({b.out}, {at::ones_like(b.out)});
    torch::autograd::backward({c.divergence}, {each});
    for (size_t i = 0; i < 6; ++i)
      EXPECT_TRUE(together.inputs[i].grad().equal((i < 3 ? attends : learns).inputs[i].grad())) << "input " << i;
  }
}

TEST(SparseAttention, a_query_that_is_given_up_takes_its_own_gradient_and_all_gradients_keep_their_bits) {
  const Segments segments{{0, 17, 700}};  // blocks of queries, parts and segments
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t top_k : {int64_t{0}, int64_t{6}}) {
      const Sparse kept(700, type), given_up(700, type);
      for (const Sparse* s : {&kept, &given_up}) {
        const IndexedAttention made = s->run(segments, top_k, true, s == &given_up);
        torch::autograd::backward({made.out, made.divergence}, {at::ones_like(made.out), at::tensor({0.5F, 3.0F})});
      }
      for (size_t i = 0; i < 6; ++i)
        EXPECT_TRUE(kept.inputs[i].grad().equal(given_up.inputs[i].grad())) << "input " << i;
      EXPECT_TRUE(kept.kv_b.gradient.equal(given_up.kv_b.gradient));
      EXPECT_EQ(given_up.inputs[0].grad().data_ptr(), given_up.inputs[0].data_ptr());
      EXPECT_NE(kept.inputs[0].grad().data_ptr(), kept.inputs[0].data_ptr());
    }
}

// In the warm-up nothing but the indexer runs back, and its gradients are made on another way.
TEST(SparseAttention, an_indexer_that_learns_alone_gets_the_gradients_that_it_gets_beside_attention) {
  const Segments segments{{0, 17, 60}};
  for (const int64_t top_k : {int64_t{0}, int64_t{6}}) {
    const Sparse beside(60, at::kFloat);
    Sparse alone(60, at::kFloat);
    for (size_t i = 0; i < 3; ++i) alone.inputs[i] = alone.inputs[i].detach();
    alone.kv_b.gradient = at::Tensor();
    for (const Sparse* s : {&beside, static_cast<const Sparse*>(&alone)}) {
      const IndexedAttention made = s->run(segments, top_k);
      EXPECT_EQ(made.out.requires_grad(), s == &beside);
      torch::autograd::backward({made.divergence}, {at::tensor({0.5, 3.0}, at::kFloat)});
    }
    for (size_t i = 3; i < 6; ++i)
      EXPECT_LE(apart(alone.inputs[i].grad(), beside.inputs[i].grad()), 1e-5) << "input " << i;
  }
}

TEST(RowGaps, hold_any_ascending_rows_in_the_bytes_that_are_set_aside) {
  const std::vector<std::vector<int32_t>> cases = {
      {}, {0}, {0, 1, 2, 3}, {254}, {255}, {256, 511, 512, 1022}, {509, 510, 765, 99999}, {0, 99999}};
  for (const std::vector<int32_t>& rows : cases) {
    const auto count = static_cast<int64_t>(rows.size());
    constexpr uint8_t kUntouched = 77;
    std::vector<uint8_t> bytes(static_cast<size_t>(cpu::gap_bytes(count, 100000)) + 1, kUntouched);
    cpu::write_gaps(rows.data(), count, bytes.data());
    EXPECT_EQ(bytes.back(), kUntouched);
    std::vector<int32_t> again(rows.size());
    cpu::read_gaps(bytes.data(), count, again.data());
    EXPECT_EQ(again, rows);
  }
  // The most that there can be: every gap counted in full.
  std::vector<int32_t> last = {254};
  EXPECT_EQ(cpu::gap_bytes(1, 255), 2);
  std::vector<uint8_t> bytes(2);
  cpu::write_gaps(last.data(), 1, bytes.data());
  cpu::read_gaps(bytes.data(), 1, last.data());
  EXPECT_EQ(last[0], 254);
}

TEST(SelectTop, takes_the_largest_ascending_by_row_for_every_instruction_set) {
  std::vector<const cpu::Kernels*> all = {&cpu::x86_64_v2::kernels()};
  if (__builtin_cpu_supports("x86-64-v3")) all.push_back(&cpu::x86_64_v3::kernels());
  if (__builtin_cpu_supports("x86-64-v4")) all.push_back(&cpu::x86_64_v4::kernels());
  const int64_t n = 3000;
  for (const double coarse : {0.0, 4.0})  // 4: a dozen different values, so that ties are cut
    for (const int64_t k : {int64_t{1}, int64_t{17}, int64_t{500}, int64_t{2999}, int64_t{3000}}) {
      at::Tensor scores = random({n}, 5).to(at::kFloat);
      if (coarse > 0) scores = (scores * coarse).round() / coarse;
      const at::Tensor order = std::get<1>(scores.sort(true, 0, true)).narrow(0, 0, k);
      const at::Tensor wanted = std::get<0>(order.sort());
      for (const cpu::Kernels* kernels : all) {
        std::vector<int32_t> picked(static_cast<size_t>(n));
        std::vector<uint32_t> keys(static_cast<size_t>(n));
        std::vector<float> kept(static_cast<size_t>(n));
        const int64_t count =
            kernels->select_top(scores.const_data_ptr<float>(), n, k, picked.data(), kept.data(), keys.data());
        ASSERT_EQ(count, k);
        for (int64_t i = 0; i < k; ++i) {
          ASSERT_EQ(picked[static_cast<size_t>(i)], wanted[i].item<int64_t>()) << i;
          ASSERT_EQ(kept[static_cast<size_t>(i)], scores[wanted[i]].item<float>());
        }
      }
    }
}

}  // namespace
}  // namespace lf::nn::test
