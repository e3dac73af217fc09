#include "nn/attention.h"

#include <cmath>

#include <gtest/gtest.h>

#include "nn/cpu/kernels.h"
#include "plugins/models/nn/block_check.h"

namespace lf::nn::test {
namespace {

constexpr double kEps = 1e-6;

at::Tensor reference_rotation(const at::Tensor& x, const RotaryTable& table) {  // [N, heads, D]
  const auto halves = x.chunk(2, -1);
  const at::Tensor turned = at::cat({-halves[1], halves[0]}, -1);
  const at::Tensor c = at::cat({table.cosine, table.cosine}, 1).to(at::kDouble).unsqueeze(1);
  const at::Tensor s = at::cat({table.sine, table.sine}, 1).to(at::kDouble).unsqueeze(1);
  return x * c + turned * s;
}

at::Tensor reference_head_norm(const at::Tensor& x, const at::Tensor& weight) {
  return x * (x.square().mean(-1, true) + kEps).rsqrt() * weight;
}

// One dense mask over all rows: what the blocks never make.
at::Tensor reference_attention(const at::Tensor& qkv, const AttentionShape& shape, const Tensors& head_norms,
                               const RotaryTable& rotary, const Segments& segments) {
  const int64_t n = qkv.size(0), d = shape.head_size;
  const int64_t group = shape.heads / shape.kv_heads;
  std::vector<int64_t> order;  // of heads in a row, by kind
  if (shape.layout == QkvLayout::kByGroup) {
    for (int64_t h = 0; h < shape.heads; ++h) order.push_back(h / group * (group + 2) + h % group);
    for (const int64_t part : {group, group + 1})
      for (int64_t g = 0; g < shape.kv_heads; ++g) order.push_back(g * (group + 2) + part);
  } else {
    for (int64_t h = 0; h < shape.heads + 2 * shape.kv_heads; ++h) order.push_back(h);
  }
  const auto parts = qkv.view({n, shape.heads + 2 * shape.kv_heads, d})
                         .index_select(1, at::tensor(order, at::kLong))
                         .split_with_sizes({shape.heads, shape.kv_heads, shape.kv_heads}, 1);
  at::Tensor q = parts[0], k = parts[1];
  if (!head_norms.empty()) {
    q = reference_head_norm(q, head_norms[0]);
    k = reference_head_norm(k, head_norms[1]);
  }
  if (rotary.present()) {
    q = reference_rotation(q, rotary);
    k = reference_rotation(k, rotary);
  }
  q = q.transpose(0, 1);
  k = k.transpose(0, 1).repeat_interleave(group, 0);
  const at::Tensor v = parts[2].transpose(0, 1).repeat_interleave(shape.heads / shape.kv_heads, 0);
  at::Tensor segment = at::zeros({n}, at::kLong);
  for (size_t s = 0; s < segments.count(); ++s)
    segment.slice(0, segments.starts[s], segments.starts[s + 1]).fill_(static_cast<int64_t>(s));
  at::Tensor visible = segment.unsqueeze(0) == segment.unsqueeze(1);
  if (shape.causal) visible = visible.logical_and(at::ones({n, n}, at::kBool).tril());
  const at::Tensor scores = at::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(d));
  const at::Tensor shares =
      scores.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity()).softmax(-1);
  return at::matmul(shares, v).transpose(0, 1).reshape({n, shape.query_width()});
}

struct Setting {
  AttentionShape shape;
  bool head_norms;
  std::vector<int64_t> lengths;
  bool rotated = true;
};

void run(const Setting& setting) {
  Segments segments;
  for (const int64_t length : setting.lengths) segments.starts.push_back(segments.starts.back() + length);
  const int64_t n = segments.rows(), d = setting.shape.head_size;
  RotaryTable rotary;
  if (setting.rotated)
    rotary = rotary_table(axial_rotary(d, 100), at::stack({at::arange(n), at::arange(n).flip(0)}).to(at::kLong));
  Check what{{random({n, setting.shape.width()}, 1)}, {}, {}, {}};
  if (setting.head_norms) what.parameters = {random({d}, 2) + 1, random({d}, 3) + 1};
  what.block = [&](const Tensors& in, const std::vector<Parameter>& p) {
    HeadNorms norms;
    if (setting.head_norms) norms = {{NormKind::kRms, kEps, p[0], {}}, {NormKind::kRms, kEps, p[1], {}}};
    return attention(in[0], setting.shape, norms, rotary, segments);
  };
  what.formula = [&](const Tensors& in, const Tensors& p) {
    return reference_attention(in[0], setting.shape, p, rotary, segments);
  };
  check_all(what, "attention");
}

TEST(Attention, of_grouped_heads_is_causal_within_ragged_segments) {
  run({{.heads = 6, .kv_heads = 2, .head_size = 20, .causal = true}, false, {5, 1, 0, 70, 33}});
}
TEST(Attention, with_head_norms_gives_their_gradients) {
  run({{.heads = 4, .kv_heads = 2, .head_size = 8, .causal = true}, true, {50, 3, 17}});
}
TEST(Attention, over_whole_frames_sees_everything_in_them) {
  run({{.heads = 2, .kv_heads = 2, .head_size = 12, .causal = false}, false, {24, 60, 4}});
}
TEST(Attention, over_windows_of_one_size) {
  run({{.heads = 2, .kv_heads = 2, .head_size = 80, .causal = false}, false, {64, 64, 64, 16}});
}
TEST(Attention, across_several_key_blocks_merges_their_softmax) {
  run({{.heads = 2, .kv_heads = 1, .head_size = 64, .causal = true}, false, {600}});
  run({{.heads = 1, .kv_heads = 1, .head_size = 16, .causal = false}, false, {513, 40}});
}
TEST(Attention, of_rows_grouped_by_key_value_head) {
  run({{.heads = 6, .kv_heads = 2, .head_size = 8, .causal = true, .layout = QkvLayout::kByGroup}, false, {5, 1, 60}});
  run({{.heads = 4, .kv_heads = 4, .head_size = 12, .causal = false, .layout = QkvLayout::kByGroup}, true, {33, 2}});
}
TEST(Attention, without_a_rotation_takes_heads_as_they_are) {
  run({{.heads = 3, .kv_heads = 3, .head_size = 7, .causal = false}, false, {17, 5}, false});
  run({{.heads = 4, .kv_heads = 2, .head_size = 16, .causal = true}, true, {40}, false});
}
TEST(Attention, of_no_rows_is_empty) {
  run({{.heads = 2, .kv_heads = 1, .head_size = 8, .causal = true}, true, {}});
  run({{.heads = 2, .kv_heads = 1, .head_size = 8, .causal = true}, false, {0, 0}});
}

TEST(Attention, survives_scores_far_apart) {
  Segments segments{{0, 40}};
  const RotaryTable rotary = rotary_table(axial_rotary(8, 100), at::zeros({2, 40}, at::kLong));
  const at::Tensor qkv = random({40, 24}, 1, 60).to(at::kFloat).requires_grad_(true);
  const at::Tensor y =
      attention(qkv, {.heads = 1, .kv_heads = 1, .head_size = 8, .causal = true}, {}, rotary, segments);
  EXPECT_FALSE(y.isnan().any().item<bool>());
  torch::autograd::backward({y}, {at::ones_like(y)});
  EXPECT_FALSE(qkv.grad().isnan().any().item<bool>());
}

// The kernels of every instruction set that this machine runs, against one another.
TEST(Attention, is_the_same_for_every_instruction_set) {
  std::vector<const cpu::Kernels*> all = {&cpu::x86_64_v2::kernels()};
  if (__builtin_cpu_supports("x86-64-v3")) all.push_back(&cpu::x86_64_v3::kernels());
  if (__builtin_cpu_supports("x86-64-v4")) all.push_back(&cpu::x86_64_v4::kernels());
  const int64_t n = 300, d = 20, heads = 2;
  const at::Tensor qkv = random({n, 3 * heads * d}, 1).to(at::kFloat), dout = random({n, heads * d}, 2).to(at::kFloat);
  const RotaryTable rotary =
      rotary_table(axial_rotary(d, 100), at::stack({at::arange(n), at::arange(n)}).to(at::kLong));
  Tensors outs, gradients;
  for (const cpu::Kernels* kernels : all) {
    const at::Tensor out = at::empty({n, heads * d}), log_sum = at::empty({heads, n}), dqkv = at::empty_like(qkv);
    cpu::AttentionProblem<float> p{};
    const int64_t width = heads * d;
    p.query = qkv.const_data_ptr<float>();
    p.key = p.query + width;
    p.value = p.key + width;
    p.query_stride = p.key_stride = p.value_stride = 3 * width;
    p.query_rotary = p.key_rotary = {rotary.cosine.const_data_ptr<float>(), rotary.sine.const_data_ptr<float>()};
    p.scale = 0.2f;
    p.rows = n;
    p.heads = p.kv_heads = heads;
    p.head_size = p.value_size = d;
    p.causal = true;
    p.out = out.mutable_data_ptr<float>();
    p.log_sum = log_sum.mutable_data_ptr<float>();
    p.dout = dout.const_data_ptr<float>();
    p.dquery = dqkv.mutable_data_ptr<float>();
    p.dkey = p.dquery + width;
    p.dvalue = p.dkey + width;
    const at::Tensor scratch = at::empty({kernels->attention_scratch(d, d, n, true)});
    for (int64_t head = 0; head < heads; ++head) {
      kernels->f32.attention_forward(p, {{0, n}, {0, n}, head}, scratch.mutable_data_ptr<float>());
      kernels->f32.attention_backward(p, {{0, n}, {0, n}, head}, scratch.mutable_data_ptr<float>(), nullptr);
    }
    outs.push_back(out);
    gradients.push_back(dqkv);
  }
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_LE(difference(outs[i], outs[0].to(at::kDouble)), 1e-5);
    EXPECT_LE(difference(gradients[i], gradients[0].to(at::kDouble)), 1e-5);
  }
}

TEST(Rotary, assigns_frequencies_to_axes_as_published) {
  EXPECT_EQ(chunked_rotary(12, 1e4, {1, 2, 3}).axis, (std::vector<int64_t>{0, 1, 1, 2, 2, 2}));
  // T everywhere but H at 1, 4, ... below 3 · 2 and W at 2, 5, ... below 3 · 1.
  EXPECT_EQ(interleaved_rotary(16, 1e4, {5, 2, 1}).axis, (std::vector<int64_t>{0, 1, 2, 0, 1, 0, 0, 0}));
  EXPECT_EQ(axial_rotary(16, 1e4).axis, (std::vector<int64_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_FLOAT_EQ(chunked_rotary(8, 1e4, {4, 0, 0}).frequency[1], 0.1f);
}

}  // namespace
}  // namespace lf::nn::test
