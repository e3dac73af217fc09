#include "components/intern_vit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "components/unit_steps.h"
#include "nn/embedding.h"
#include "nn/layer_scale.h"
#include "nn/query_key_norm.h"

namespace lf::components {
namespace {

struct Names {
  const char *class_token, *positions, *patch, *layers, *input_norm, *mlp_norm, *q_norm, *k_norm, *out,
      *attention_scale, *mlp_scale, *projector_norm, *projector_up, *projector_down;
};

const Names& names_of(InternVitNaming naming) {
  static constexpr Names kTransformers = {"embeddings.cls_token",
                                          "embeddings.position_embeddings",
                                          "embeddings.patch_embeddings.projection",
                                          "encoder.layer",
                                          "layernorm_before",
                                          "layernorm_after",
                                          "attention.q_norm",
                                          "attention.k_norm",
                                          "attention.projection_layer",
                                          "lambda_1",
                                          "lambda_2",
                                          "layer_norm",
                                          "linear_1",
                                          "linear_2"};
  static constexpr Names kOriginal = {"embeddings.class_embedding",
                                      "embeddings.position_embedding",
                                      "embeddings.patch_embedding",
                                      "encoder.layers",
                                      "norm1",
                                      "norm2",
                                      "attn.q_norm",
                                      "attn.k_norm",
                                      "attn.proj",
                                      "ls1",
                                      "ls2",
                                      "0",
                                      "1",
                                      "3"};
  return naming == InternVitNaming::kOriginal ? kOriginal : kTransformers;
}

ParameterSpec qkv_spec(const InternVitConfig& c, const std::string& block, uint32_t unit, bool bias) {
  const std::string ending = bias ? "bias" : "weight";
  const Init init = bias ? Init::kZeros : Init::kNormal;
  const auto shape = [&](int64_t rows) {
    return bias ? std::vector<int64_t>{rows} : std::vector<int64_t>{rows, c.width};
  };
  ParameterSpec spec;
  if (c.naming == InternVitNaming::kOriginal) {
    spec = whole(fmt::format("{}attn.qkv.{}", block, ending), unit, shape(3 * c.width), init, c.deviation);
  } else {
    std::vector<Part> parts;
    for (const char* which : {"q", "k", "v"}) {
      Part part{fmt::format("{}attention.{}_proj.{}", block, which, ending), shape(c.width), Along::kTensor};
      part.piece = c.width / c.heads;
      parts.push_back(std::move(part));
    }
    spec = joined(fmt::format("{}attention.qkv_proj.{}", block, ending), unit, std::move(parts), init, c.deviation);
  }
  spec.linear = !bias;
  return spec;
}

MergerConfig projector_of(const InternVitConfig& c) {
  MergerConfig projector;
  projector.width = c.width;
  projector.merge = c.merge;
  projector.inner = c.projector_inner > 0 ? c.projector_inner : c.out_width;
  projector.out = c.out_width;
  projector.norm_patches = c.projector_norm_patches;
  projector.norm_eps = c.projector_norm_eps;
  projector.deviation = c.deviation;
  return projector;
}

// A parameter with leading axes of 1, as rows of a table.
nn::Parameter as_rows(const nn::Parameter& parameter) {
  const auto rows = [](const at::Tensor& t) { return t.defined() ? t.view({-1, t.size(-1)}) : t; };
  return {rows(parameter.value), rows(parameter.gradient)};
}

struct AxisTaps {
  std::array<int64_t, 4> at;
  std::array<float, 4> weight;
};

// Index on an axis of `size` patches -> four neighbours on one of `side`: Keys' kernel with a = -3/4.
AxisTaps cubic_taps(int64_t index, int64_t size, int64_t side) {
  constexpr float kA = -0.75f;
  const float scale = static_cast<float>(side) / static_cast<float>(size);
  const float centre = scale * (static_cast<float>(index) + 0.5f) - 0.5f;
  const float below = std::floor(centre), t = centre - below;
  const auto near = [](float x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](float x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  AxisTaps taps{{}, {far(t + 1), near(t), near(1 - t), far(2 - t)}};
  for (int64_t k = 0; k < 4; ++k)
    taps.at[static_cast<size_t>(k)] = std::clamp<int64_t>(static_cast<int64_t>(below) - 1 + k, 0, side - 1);
  return taps;
}

}  // namespace

Taps tile_taps(int64_t tile_side, int64_t side, int64_t merge) {
  const std::vector<PatchGrid> tile = {{1, tile_side, tile_side}};
  const std::vector<int64_t> positions = patch_positions(tile, merge);
  const int64_t n = tile_side * tile_side, per_row = tile_side == side ? 1 : 16;
  Taps taps;
  taps.row.assign(static_cast<size_t>(per_row), 0);
  taps.weight.assign(static_cast<size_t>(per_row), 0);
  taps.weight[0] = 1;  // the class row's own position is never resized
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = positions[static_cast<size_t>(i)], column = positions[static_cast<size_t>(n + i)];
    if (per_row == 1) {
      taps.row.push_back(1 + row * side + column);
      taps.weight.push_back(1);
      continue;
    }
    const AxisTaps down = cubic_taps(row, tile_side, side), across = cubic_taps(column, tile_side, side);
    for (size_t y = 0; y < 4; ++y)
      for (size_t x = 0; x < 4; ++x) {
        taps.row.push_back(1 + down.at[y] * side + across.at[x]);
        taps.weight.push_back(down.weight[y] * across.weight[x]);
      }
  }
  return taps;
}

ParameterTable parameter_table(const InternVitConfig& c) {
  const Names& names = names_of(c.naming);
  ParameterTable table;
  table.push_back(whole(c.prefix + names.patch + ".weight", 0, {c.width, c.channels, c.patch, c.patch}, Init::kNormal,
                        c.deviation));
  table.push_back(whole(c.prefix + names.patch + ".bias", 0, {c.width}, Init::kZeros));
  table.push_back(whole(c.prefix + names.class_token, 0, {1, 1, c.width}, Init::kZeros));
  table.push_back(whole(c.prefix + names.positions, 0, {1, 1 + c.side * c.side, c.width}, Init::kZeros));
  for (int64_t layer = 0; layer < c.depth; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    const std::string block = fmt::format("{}{}.{}.", c.prefix, names.layers, layer);
    add_norm(table, block + names.input_norm, unit, c.width, c.norm);
    table.push_back(qkv_spec(c, block, unit, false));
    if (c.qkv_bias) table.push_back(qkv_spec(c, block, unit, true));
    if (c.query_key_norms) {
      add_norm(table, block + names.q_norm, unit, c.width, nn::NormKind::kRms);
      add_norm(table, block + names.k_norm, unit, c.width, nn::NormKind::kRms);
    }
    add_linear(table, block + names.out, unit, c.width, c.width, c.deviation);
    table.push_back(constant(block + names.attention_scale, unit, {c.width}, c.layer_scale));
    add_norm(table, block + names.mlp_norm, unit, c.width, c.norm);
    add_linear(table, block + "mlp.fc1", unit, c.intermediate, c.width, c.deviation);
    add_linear(table, block + "mlp.fc2", unit, c.width, c.intermediate, c.deviation);
    table.push_back(constant(block + names.mlp_scale, unit, {c.width}, c.layer_scale));
  }
  add_merger(
      table, projector_of(c), static_cast<uint32_t>(c.depth + 1),
      {c.projector + names.projector_norm, c.projector + names.projector_up, c.projector + names.projector_down});
  return table;
}

InternVitBatch intern_vit_batch(const InternVitConfig& c, int64_t n_tiles, const at::Tensor& pixels,
                                const at::TensorOptions& compute) {
  const at::Device device = compute.device();
  const int64_t n = c.tile_patches(), rows = 1 + n;
  InternVitBatch batch;
  if (pixels.defined()) {
    TORCH_CHECK(pixels.dim() == 2 && pixels.size(0) == n_tiles * n && pixels.size(1) == c.patch_columns(),
                "pixel_values must be [", n_tiles * n, ", ", c.patch_columns(), "] for ", n_tiles, " tiles, got ",
                pixels.sizes());
    batch.pixels = pixels.to(compute);
  }
  for (int64_t tile = 1; tile <= n_tiles; ++tile) batch.tiles.starts.push_back(tile * rows);
  batch.class_ids = at::zeros({n_tiles * rows}, at::TensorOptions(at::kLong).device(device));
  batch.patch_rows = at::arange(n_tiles * rows, at::kLong).view({n_tiles, rows}).slice(1, 1).flatten().to(device);
  const Taps taps = tile_taps(c.tile_side, c.side, c.merge);
  batch.taps = at::tensor(taps.row, at::kLong).view({rows, -1}).repeat({n_tiles, 1}).to(device);
  batch.tap_weights = at::tensor(taps.weight, at::kFloat).view({rows, -1}).repeat({n_tiles, 1}).to(device);
  return batch;
}

InternVitStage::InternVitStage(InternVitConfig config, uint32_t first_unit, uint32_t n_units,
                               nn::ParallelContext parallel)
    : config_(std::move(config)), first_unit_(first_unit), parallel_(std::move(parallel)), units_(n_units) {}

void InternVitStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const InternVitConfig& c = config_;
  const int64_t number = first_unit_ + unit;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  if (number == 0) {
    u.patch = binding.take_linear(true);
    u.class_token = as_rows(binding.take());
    u.positions = as_rows(binding.take());
  } else if (number <= c.depth) {
    u.attention.shape = {c.heads, c.heads, c.width / c.heads, /*causal=*/false};
    u.attention.norm = binding.take_norm(c.norm, c.norm_eps);
    u.attention.qkv = binding.take_linear(c.qkv_bias);
    if (c.query_key_norms) {
      const double eps = c.naming == InternVitNaming::kOriginal ? c.norm_eps : 1e-6;  // as either class has it
      u.query_norm = binding.take_norm(nn::NormKind::kRms, eps);
      u.key_norm = binding.take_norm(nn::NormKind::kRms, eps);
    }
    u.attention.out = binding.take_linear(true);
    u.attention_scale = binding.take();
    u.mlp.activation = c.activation;
    u.mlp.norm = binding.take_norm(c.norm, c.norm_eps);
    u.mlp.up = binding.take_linear(true);
    u.mlp.down = binding.take_linear(true);
    u.mlp_scale = binding.take();
  } else {
    u.projector = Merger::take(projector_of(c), binding);
  }
  binding.done();
}

at::Tensor InternVitStage::layer(const Unit& u, const InternVitBatch& batch, const at::Tensor& in) const {
  at::Tensor qkv = nn::norm_linear(in, u.attention.norm, u.attention.qkv);
  if (config_.query_key_norms) qkv = nn::query_key_norm(qkv, u.attention.shape, u.query_norm, u.key_norm);
  const at::Tensor attended = nn::attention(qkv, u.attention.shape, {}, {}, batch.tiles);
  const at::Tensor hidden = nn::scaled_add(nn::linear(attended, u.attention.out), u.attention_scale, in);
  const at::Tensor up = nn::norm_linear(hidden, u.mlp.norm, u.mlp.up);
  return nn::scaled_add(nn::activate_linear(up, u.mlp.activation, u.mlp.down), u.mlp_scale, hidden);
}

nn::Tensors InternVitStage::run(uint32_t unit, const InternVitBatch& batch, const nn::Tensors& in) const {
  const Unit& u = units_[unit];
  const int64_t number = first_unit_ + unit;
  if (number == 0) {
    const at::Tensor patches = nn::linear(batch.pixels, u.patch);
    const at::Tensor rows = nn::embed(batch.class_ids, u.class_token, patches, batch.patch_rows, -1);
    return {nn::add_interpolated(rows, u.positions, batch.taps, batch.tap_weights)};
  }
  if (number <= config_.depth) return {layer(u, batch, in[0])};
  return {u.projector(nn::select_rows(in[0], batch.patch_rows))};
}

std::vector<nn::Step> InternVitStage::steps(std::shared_ptr<const InternVitBatch> batch,
                                            const std::vector<nn::Recompute>& recompute) const {
  return unit_steps(
      units_, recompute, [this](uint32_t unit) { return first_unit_ + unit == config_.depth + 1; },
      [this, batch](uint32_t unit, const nn::Tensors& in) { return run(unit, *batch, in); });
}

}  // namespace lf::components
