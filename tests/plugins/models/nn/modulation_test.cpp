#include "nn/modulation.h"

#include <cmath>
#include <utility>

#include "nn/cross_attention.h"
#include "nn/flow_loss.h"
#include "nn/heads.h"
#include "nn/timestep.h"
#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

const Runs kRuns{{0, 5, 5, 12, 40}, {1, 0, 0, 2}};  // rows of three conditioning rows, one run empty
constexpr int64_t kRows = 40, kWidth = 12, kInner = 20;

// Row by row: which vector of the conditioning each of the rows uses.
at::Tensor spread(const at::Tensor& rows, int64_t place) {
  Tensors parts;
  for (size_t i = 0; i < kRuns.count(); ++i)
    parts.push_back(
        rows[kRuns.of[i]].narrow(0, place * kWidth, kWidth).expand({kRuns.starts[i + 1] - kRuns.starts[i], kWidth}));
  return at::cat(parts, 0);
}

at::Tensor reference_modulated(const at::Tensor& x, const at::Tensor& rows, int64_t shift, int64_t scale) {
  const at::Tensor centred = x - x.mean(-1, true);
  return centred * (centred.square().mean(-1, true) + 1e-6).rsqrt() * (1 + spread(rows, scale)) + spread(rows, shift);
}

Linear take(const std::vector<Parameter>& p, size_t first) { return {p[first], p[first + 1]}; }
at::Tensor map(const at::Tensor& x, const Tensors& p, size_t first) {
  return at::matmul(x, p[first].t()) + p[first + 1];
}

TEST(Modulation, of_runs_scales_and_shifts_before_every_map) {
  Check what{{random({kRows, kWidth}, 1), random({3, 2 * kWidth}, 2)},
             {random({kInner, kWidth}, 3), random({kInner}, 4), random({7, kWidth}, 5), random({7}, 6)},
             [](const Tensors& in, const std::vector<Parameter>& p) {
               return at::cat(modulated_linears(in[0], {in[1], 1, 0, 1e-6}, kRuns, {take(p, 0), take(p, 2)}), 1);
             },
             [](const Tensors& in, const Tensors& p) {
               const at::Tensor y = reference_modulated(in[0], in[1], 1, 0);
               return at::cat({map(y, p, 0), map(y, p, 2)}, 1);
             }};
  check_all(what, "modulated_linears");
}

TEST(Modulation, of_root_mean_squares_takes_no_mean_off) {
  Check what{{random({kRows, kWidth}, 1) + 2, random({3, 3 * kWidth}, 2)},
             {random({kInner, kWidth}, 3), random({kInner}, 4)},
             [](const Tensors& in, const std::vector<Parameter>& p) {
               return modulated_linears(in[0], {in[1], 1, 0, 1e-6, NormKind::kRms}, kRuns, {take(p, 0)})[0];
             },
             [](const Tensors& in, const Tensors& p) {
               const at::Tensor x = in[0], normed = x * (x.square().mean(-1, true) + 1e-6).rsqrt();
               return map(normed * (1 + spread(in[1], 0)) + spread(in[1], 1), p, 0);
             }};
  check_all(what, "modulated_linears");
}

TEST(Modulation, gates_a_map_and_gives_the_gates_their_gradients) {
  Check what{{random({kRows, kInner}, 1), random({3, 3 * kWidth}, 2), random({kRows, kWidth}, 3)},
             {random({kWidth, kInner}, 4), random({kWidth}, 5)},
             [](const Tensors& in, const std::vector<Parameter>& p) {
               return linear_gated(in[0], take(p, 0), in[1], 2, kRuns, in[2]);
             },
             [](const Tensors& in, const Tensors& p) { return in[2] + spread(in[1], 2) * map(in[0], p, 0); }};
  check_all(what, "linear_gated");
}

TEST(Modulation, gates_an_activated_map_with_rows_beside_it) {
  for (const bool beside : {false, true}) {
    const int64_t first = beside ? 8 : 0;
    Check what{{random({kRows, kInner}, 1), random({3, kWidth}, 2), random({kRows, kWidth}, 3)},
               {random({kWidth, first + kInner}, 4), random({kWidth}, 5)},
               [=](const Tensors& in, const std::vector<Parameter>& p) {
                 return activate_linear_gated(in[0], Activation::kGeluTanh, beside ? in[3] : at::Tensor(), take(p, 0),
                                              in[1], 0, kRuns, in[2]);
               },
               [=](const Tensors& in, const Tensors& p) {
                 const at::Tensor value = at::gelu(in[0], "tanh");
                 return in[2] + spread(in[1], 0) * map(beside ? at::cat({in[3], value}, 1) : value, p, 0);
               }};
    if (beside) what.inputs.push_back(random({kRows, first}, 6));
    check_all(what, "activate_linear_gated");
  }
}

TEST(Modulation, adds_a_table_to_every_row) {
  Check what{{random({3, 24}, 1)},
             {random({1, 2, 12}, 2)},
             [](const Tensors& in, const std::vector<Parameter>& p) { return add_to_rows(in[0], p[0]); },
             [](const Tensors& in, const Tensors& p) { return in[0] + p[0].flatten(); }};
  check_all(what, "add_to_rows");
}

TEST(Runs, are_cut_within_and_between) {
  const Runs part = slice(kRuns, 3, 13);
  EXPECT_EQ(part.starts, (std::vector<int64_t>{0, 2, 9, 10}));
  EXPECT_EQ(part.of, (std::vector<int64_t>{1, 0, 2}));
}

at::Tensor reference_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& angle, int64_t heads,
                           bool across) {
  const int64_t d = x.size(1) / heads;
  at::Tensor y = across ? x : x.view({-1, heads, d});
  if (weight.defined()) y = y * (y.square().mean(-1, true) + 1e-6).rsqrt() * weight;
  y = y.reshape({-1, heads, d / 2, 2});
  if (!angle.defined()) return y.reshape({-1, heads * d});
  const at::Tensor c = angle.cos().unsqueeze(1), s = angle.sin().unsqueeze(1);
  const at::Tensor even = y.select(3, 0), odd = y.select(3, 1);
  return at::stack({even * c - odd * s, even * s + odd * c}, 3).reshape({-1, heads * d});
}

// Two streams with norms of their own, in a joint order, rotated by pairs in f64 angles.
TEST(Heads, of_two_streams_are_normed_rotated_and_put_in_order) {
  const int64_t heads = 3, d = 10, width = heads * d;
  const at::Tensor first = at::tensor({4, 0, 2}, at::kLong), second = at::tensor({1, 3}, at::kLong);
  const at::Tensor positions = at::stack({at::arange(5), at::arange(5) * 7 - 9, at::arange(5).flip(0)}).to(at::kLong);
  Tensors angles;
  for (const auto& [axis, section] : std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {1, 4}, {2, 4}})
    angles.push_back(positions[axis].to(at::kDouble).unsqueeze(1) /
                     at::pow(100.0, at::arange(0, section, 2, at::kDouble) / static_cast<double>(section)));
  const at::Tensor angle = at::cat(angles, 1);
  for (const bool across : {false, true}) {
    const int64_t normed = across ? width : d;
    Check what{{random({3, 3 * width}, 1), random({2, 3 * width}, 2)},
               {random({normed}, 3) + 1, random({normed}, 4) + 1, random({normed}, 5) + 1},
               [=](const Tensors& in, const std::vector<Parameter>& p) {
                 const auto rms = [&](size_t i) { return Norm{NormKind::kRms, 1e-6, p[i], {}}; };
                 PairRotary rotary = pair_rotary({{2, 4, 4}, 100, false}, positions);
                 if (in[0].scalar_type() == at::kDouble) {
                   rotary.cosine = at::stack({angle.cos(), angle.cos()}, 2).flatten(1);
                   rotary.sine = at::stack({-angle.sin(), angle.sin()}, 2).flatten(1);
                 }
                 return join_heads({{in[0], {rms(0), rms(1), {}}, {true, true, false}, first},
                                    {in[1], {rms(2), {}, {}}, {true, false, false}, second}},
                                   {heads, d, across}, rotary, 5);
               },
               [=](const Tensors& in, const Tensors& p) {
                 const auto kind = [&](size_t s, int64_t k) { return in[s].narrow(1, k * width, width); };
                 const at::Tensor a = angle.index_select(0, first), b = angle.index_select(0, second), none;
                 const at::Tensor one = at::cat({reference_heads(kind(0, 0), p[0], a, heads, across),
                                                 reference_heads(kind(0, 1), p[1], a, heads, across), kind(0, 2)},
                                                1);
                 const at::Tensor two =
                     at::cat({reference_heads(kind(1, 0), p[2], b, heads, across), kind(1, 1), kind(1, 2)}, 1);
                 return at::cat({one, two}, 0).index_select(0, at::cat({first, second}).argsort());
               }};
    check_all(what, across ? "join_heads with norms across" : "join_heads with norms of each");
  }
}

TEST(Heads, rows_come_back_to_their_streams) {
  const Tensors of = {at::tensor({3, 0}, at::kLong), at::tensor({1, 2}, at::kLong)};
  const at::Tensor x = random({4, 6}, 1).requires_grad_(true);
  const Tensors parts = split_rows(x, of);
  EXPECT_TRUE(at::equal(parts[0], x.detach().index_select(0, of[0])));
  EXPECT_TRUE(at::equal(join_rows({parts[0].detach(), parts[1].detach()}, of), x.detach()));
  torch::autograd::backward({parts[0]}, {at::ones({2, 6}, at::kDouble)});  // nothing came back from the other
  EXPECT_TRUE(at::equal(x.grad().sum(1), at::tensor({6.0, 0.0, 0.0, 6.0}, at::kDouble)));
}

at::Tensor reference_cross(const at::Tensor& queries, const at::Tensor& keys, int64_t heads, const at::Tensor& bias) {
  const int64_t d = queries.size(1) / heads;
  const auto split = [&](const at::Tensor& t) { return t.view({t.size(0), heads, d}).transpose(0, 1); };
  const auto kv = keys.chunk(2, 1);
  const at::Tensor scores = at::matmul(split(queries), split(kv[0].contiguous()).transpose(1, 2)) / std::sqrt(1.0 * d);
  return at::matmul((scores + bias).softmax(-1), split(kv[1].contiguous())).transpose(0, 1).reshape(queries.sizes());
}

// The key that stands for five equal ones gives what the five give.
TEST(CrossAttention, stays_within_samples_and_weighs_keys_that_stand_for_many) {
  const int64_t heads = 2, d = 6;
  const Segments queries{{0, 4, 9}}, keys{{0, 3, 5}};
  const at::Tensor bias = at::tensor({0.0, 0.0, std::log(5.0), 0.0, 0.0}, at::kDouble);
  Check what{{random({9, heads * d}, 1), random({5, 2 * heads * d}, 2)},
             {},
             [&](const Tensors& in, const std::vector<Parameter>&) {
               return cross_attention(in[0], in[1], {.heads = heads, .kv_heads = heads, .head_size = d}, queries, keys,
                                      bias.to(at::kFloat));
             },
             [&](const Tensors& in, const Tensors&) {
               const at::Tensor many = at::cat({in[1].slice(0, 0, 2), in[1].slice(0, 2, 3).expand({5, 2 * heads * d})});
               return at::cat(
                   {reference_cross(in[0].slice(0, 0, 4), many, heads, at::zeros({7}, at::kDouble)),
                    reference_cross(in[0].slice(0, 4, 9), in[1].slice(0, 3, 5), heads, at::zeros({2}, at::kDouble))});
             }};
  for (const auto type : {at::kFloat, at::kBFloat16}) check(what, type, "cross_attention");
}

TEST(FlowLoss, weighs_rows_and_carries_its_gradient) {
  const at::Tensor target = random({6, 4}, 2).to(at::kFloat), weight = random({6}, 3).abs().to(at::kFloat);
  Check what{{random({6, 4}, 1)},
             {},
             [&](const Tensors& in, const std::vector<Parameter>&) {
               const auto type = in[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
               return flow_loss(in[0], target.to(type), weight.to(type)).sum;
             },
             [&](const Tensors& in, const Tensors&) {
               return ((in[0] - target.to(at::kDouble)).square().sum(1) * weight.to(at::kDouble)).sum();
             }};
  check_all(what, "flow_loss");
}

TEST(Timestep, embedding_has_cosines_first_and_pads_an_odd_width) {
  const at::Tensor made = timestep_embedding(at::tensor({0.5, 250.0}, at::kFloat), 7, 2);
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t j = 0; j < 3; ++j) {
      const double angle = 2 * (row == 0 ? 0.5 : 250.0) * std::pow(10000.0, -static_cast<double>(j) / 3);
      EXPECT_NEAR(made[row][j].item<double>(), std::cos(angle), 1e-4);
      EXPECT_NEAR(made[row][j + 3].item<double>(), std::sin(angle), 1e-4);
    }
  EXPECT_EQ(made[1][6].item<double>(), 0);
}

}  // namespace
}  // namespace lf::nn::test
