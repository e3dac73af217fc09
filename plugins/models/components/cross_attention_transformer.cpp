#include "components/cross_attention_transformer.h"

#include <functional>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "components/binding.h"
#include "nn/cross_attention.h"
#include "nn/timestep.h"

namespace lf::components {
namespace {

constexpr double kDeviation = 0.02;  // of weights that start at random

// Places in a layer's six vectors, and in the last unit's two.
enum : int64_t { kShift1 = 0, kScale1, kGate1, kShift2, kScale2, kGate2, kVectors };
constexpr int64_t kLastVectors = 2;

void add_linear(ParameterTable& table, const std::string& name, uint32_t unit, int64_t out, int64_t in,
                double deviation = kDeviation) {
  const Init init = deviation > 0 ? Init::kNormal : Init::kZeros;
  table.push_back(linear_map(whole(name + ".weight", unit, {out, in}, init, deviation)));
  table.back().decays = true;
  table.push_back(whole(name + ".bias", unit, {out}, Init::kZeros));
}

void add_joined(ParameterTable& table, const std::string& name, const std::vector<std::string>& parts, uint32_t unit,
                int64_t width) {
  std::vector<Part> weights, biases;
  for (const std::string& part : parts) {
    weights.push_back({part + ".weight", {width, width}});
    biases.push_back({part + ".bias", {width}});
  }
  table.push_back(linear_map(joined(name + ".weight", unit, weights, Init::kNormal, kDeviation)));
  table.push_back(joined(name + ".bias", unit, biases, Init::kZeros));
}

// Zero, as no modulation at all. Authors and diffusers start it at random.
void add_vectors(ParameterTable& table, const std::string& name, uint32_t unit, int64_t vectors, int64_t width) {
  table.push_back(whole(name, unit, {1, vectors, width}, Init::kZeros));
}

}  // namespace

nn::PairRotarySpec CrossAttentionConfig::rotary() const {
  const int64_t side = 2 * (head_size / 6);
  return {{head_size - 2 * side, side, side}, 10000, false};
}

ParameterTable parameter_table(const CrossAttentionConfig& c) {
  ParameterTable table;
  const CrossAttentionNames& n = c.names;
  const int64_t width = c.width();
  std::vector<int64_t> patch = c.patch_shape;
  patch.insert(patch.begin(), width);
  table.push_back(whole("patch_embedding.weight", 0, patch, Init::kNormal, kDeviation));
  table.push_back(whole("patch_embedding.bias", 0, {width}, Init::kZeros));
  add_linear(table, n.time_in, 0, width, c.time_columns);
  add_linear(table, n.time_out, 0, width, width);
  add_linear(table, n.time_vectors, 0, kVectors * width, width, 0);
  add_linear(table, n.text_in, 0, width, c.text_columns);
  add_linear(table, n.text_out, 0, width, width);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    const std::string block = fmt::format("blocks.{}.", layer);
    const std::string self = block + n.self, cross = block + n.cross;
    add_vectors(table, block + n.table, unit, kVectors, width);
    add_joined(table, self + "qkv", {self + n.query, self + n.key, self + n.value}, unit, width);
    table.push_back(whole(self + "norm_q.weight", unit, {width}, Init::kOnes));
    table.push_back(whole(self + "norm_k.weight", unit, {width}, Init::kOnes));
    add_linear(table, self + n.out, unit, width, width);
    if (c.cross_norm) {
      table.push_back(whole(block + n.norm + ".weight", unit, {width}, Init::kOnes));
      table.push_back(whole(block + n.norm + ".bias", unit, {width}, Init::kZeros));
    }
    add_linear(table, cross + n.query, unit, width, width);
    table.push_back(whole(cross + "norm_q.weight", unit, {width}, Init::kOnes));
    add_joined(table, cross + "key_value", {cross + n.key, cross + n.value}, unit, width);
    table.push_back(whole(cross + "norm_k.weight", unit, {width}, Init::kOnes));
    add_linear(table, cross + n.out, unit, width, width);
    add_linear(table, block + n.up, unit, c.inner, width);
    add_linear(table, block + n.down, unit, width, c.inner);
  }
  const auto last = static_cast<uint32_t>(c.layers + 1);
  add_vectors(table, n.last_table, last, kLastVectors, width);
  add_linear(table, n.last, last, c.out_columns, width, 0);
  return table;
}

struct CrossAttentionStage::Layout {
  nn::Segments images, texts;
  nn::PairRotary rotary;
  nn::HeadsShape heads;
  nn::AttentionShape attention;
};

CrossAttentionStage::CrossAttentionStage(CrossAttentionConfig config, uint32_t first_unit, uint32_t n_units)
    : config_(std::move(config)), first_unit_(first_unit), units_(n_units) {}

void CrossAttentionStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const CrossAttentionConfig& c = config_;
  const int64_t number = first_unit_ + unit;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  const auto rms = [&] { return binding.take_norm(nn::NormKind::kRms, c.eps); };
  if (number == 0) {
    for (nn::Linear* linear : {&u.patch, &u.time_in, &u.time_out, &u.time_vectors, &u.text_in, &u.text_out})
      *linear = binding.take_linear(true);
  } else if (number <= c.layers) {
    u.table = binding.take();
    u.qkv = binding.take_linear(true);
    u.self_query = rms();
    u.self_key = rms();
    u.out = binding.take_linear(true);
    if (c.cross_norm) u.norm = binding.take_norm(nn::NormKind::kLayer, c.eps);
    u.query = binding.take_linear(true);
    u.cross_query = rms();
    u.key_value = binding.take_linear(true);
    u.cross_key = rms();
    u.cross_out = binding.take_linear(true);
    u.up = binding.take_linear(true);
    u.down = binding.take_linear(true);
  } else {
    u.table = binding.take();
    u.last = binding.take_linear(true);
  }
  binding.done();
}

nn::Tensors CrossAttentionStage::begin(const Unit& unit, const DiffusionBatch& batch) const {
  const at::Tensor angles = nn::timestep_embedding(batch.time, config_.time_columns).to(batch.latents.scalar_type());
  const at::Tensor time = nn::activate_linear(nn::linear(angles, unit.time_in), nn::Activation::kSilu, unit.time_out);
  const at::Tensor vectors = nn::activate_linear(time, nn::Activation::kSilu, unit.time_vectors);
  const at::Tensor text =
      nn::activate_linear(nn::linear(batch.text, unit.text_in), nn::Activation::kGeluTanh, unit.text_out);
  return {nn::linear(batch.latents, unit.patch), text, time, vectors};
}

nn::Tensors CrossAttentionStage::layer(const Unit& unit, const DiffusionBatch& batch, const Layout& layout,
                                       const nn::Tensors& in) const {
  const at::Tensor &x = in[0], &text = in[1];
  const nn::Runs& runs = batch.image_runs;
  const double eps = config_.eps;
  const at::Tensor vectors = nn::add_to_rows(in[3], unit.table);
  const at::Tensor qkv = nn::modulated_linears(x, {vectors, kShift1, kScale1, eps}, runs, {unit.qkv})[0];
  const at::Tensor heads = nn::join_heads({{qkv, {unit.self_query, unit.self_key, {}}, {true, true, false}, {}}},
                                          layout.heads, layout.rotary, x.size(0));
  const at::Tensor attended = nn::attention(heads, layout.attention, {}, {}, layout.images);
  const at::Tensor y = nn::linear_gated(attended, unit.out, vectors, kGate1, runs, x);

  const at::Tensor query = config_.cross_norm ? nn::norm_linear(y, unit.norm, unit.query) : nn::linear(y, unit.query);
  const at::Tensor queries = nn::join_heads({{query, {unit.cross_query}, {false}, {}}}, layout.heads, {}, y.size(0));
  const at::Tensor keys = nn::join_heads({{nn::linear(text, unit.key_value), {unit.cross_key, {}}, {false, false}, {}}},
                                         layout.heads, {}, text.size(0));
  const at::Tensor seen =
      nn::cross_attention(queries, keys, layout.attention, layout.images, layout.texts, batch.key_bias);
  const at::Tensor z = nn::linear_add(seen, unit.cross_out, y);

  const at::Tensor h = nn::modulated_linears(z, {vectors, kShift2, kScale2, eps}, runs, {unit.up})[0];
  return {nn::activate_linear_gated(h, nn::Activation::kGeluTanh, {}, unit.down, vectors, kGate2, runs, z), text, in[2],
          in[3]};
}

nn::Tensors CrossAttentionStage::end(const Unit& unit, const DiffusionBatch& batch, const nn::Tensors& in) const {
  at::Tensor rows = in[0];
  if (batch.wanted.defined()) rows = rows.index_select(0, batch.wanted);
  const at::Tensor vectors = nn::add_to_rows(at::cat({in[2], in[2]}, 1), unit.table);
  const at::Tensor prediction =
      nn::modulated_linears(rows, {vectors, /*shift=*/0, /*scale=*/1, config_.eps}, batch.wanted_runs, {unit.last})[0];
  return {finish(batch, prediction)};
}

std::vector<nn::Step> CrossAttentionStage::steps(std::shared_ptr<const DiffusionBatch> batch,
                                                 const std::vector<nn::Recompute>& recompute) const {
  auto layout = std::make_shared<Layout>();
  layout->images.starts = batch->image_starts;
  layout->texts.starts = batch->text_starts;
  layout->rotary = nn::pair_rotary(config_.rotary(), batch->positions);
  layout->heads = {config_.heads, config_.head_size, true};
  layout->attention = {.heads = config_.heads, .kv_heads = config_.heads, .head_size = config_.head_size};
  std::vector<nn::Step> steps;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    const Unit* unit = &units_[i];
    const int64_t number = first_unit_ + i;
    nn::Step step{i, recompute[i], unit->trains, 0, 0, {}};
    if (number == 0) {
      step.run = [this, unit, batch](const nn::Tensors&) { return begin(*unit, *batch); };
    } else if (number <= config_.layers) {
      step.run = [this, unit, batch, layout](const nn::Tensors& in) { return layer(*unit, *batch, *layout, in); };
    } else {
      step.recompute = nn::Recompute::kNone;  // it keeps little
      step.run = [this, unit, batch](const nn::Tensors& in) { return end(*unit, *batch, in); };
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace lf::components
