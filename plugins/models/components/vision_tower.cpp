#include "components/vision_tower.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "components/unit_steps.h"
#include "nn/embedding.h"

namespace lf::components {
namespace {

constexpr double kNormEps = 1e-6;  // of every norm of the three towers, whatever their config says

MergerConfig merger_of(const VisionTowerConfig& c) {
  const int64_t folded = c.width * c.merge * c.merge, inner = c.merger_inner > 0 ? c.merger_inner : folded;
  return {c.width, c.merge, inner, c.out_width, c.merger_norm_patches, c.norm, kNormEps, c.deviation};
}

MergerConfig deepstack_merger_of(const VisionTowerConfig& c) {
  const int64_t folded = c.width * c.merge * c.merge;
  return {c.width, c.merge, folded, c.out_width, /*norm_patches=*/false, c.norm, kNormEps, c.deviation};
}

at::Tensor integers(const std::vector<int64_t>& values, const at::Device& device) {
  return at::tensor(values, at::kLong).to(device);
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return result;
}

}  // namespace

int64_t VisionTowerConfig::patch_columns() const {
  return std::accumulate(patch_shape.begin(), patch_shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t VisionTowerConfig::deepstack_of(int64_t layer) const {
  const auto found = std::find(deepstack_layers.begin(), deepstack_layers.end(), layer);
  return found == deepstack_layers.end() ? -1 : found - deepstack_layers.begin();
}

ParameterTable parameter_table(const VisionTowerConfig& c) {
  ParameterTable table;
  const std::string& prefix = c.names.prefix;
  std::vector<int64_t> patch = c.patch_shape;
  patch.insert(patch.begin(), c.width);
  table.push_back(whole(prefix + "patch_embed.proj.weight", 0, patch, Init::kNormal, c.deviation));
  if (c.patch_bias) table.push_back(whole(prefix + "patch_embed.proj.bias", 0, {c.width}, Init::kZeros));
  if (c.position_side > 0)
    table.push_back(whole(prefix + "pos_embed.weight", 0, {c.position_side * c.position_side, c.width}, Init::kNormal,
                          c.deviation));

  for (int64_t layer = 0; layer < c.depth; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    const std::string block = fmt::format("{}blocks.{}.", prefix, layer);
    add_norm(table, block + "norm1", unit, c.width, c.norm);
    add_linear(table, block + "attn.qkv", unit, 3 * c.width, c.width, c.deviation);
    add_linear(table, block + "attn.proj", unit, c.width, c.width, c.deviation);
    add_norm(table, block + "norm2", unit, c.width, c.norm);
    if (c.activation == nn::Activation::kGatedSilu) {
      std::vector<Part> weights, biases;
      for (const std::string& name : c.names.up) {
        weights.push_back({block + name + ".weight", {c.intermediate, c.width}, Along::kTensor});
        biases.push_back({block + name + ".bias", {c.intermediate}, Along::kTensor});
      }
      table.push_back(linear_map(joined(block + "mlp.gate_up_proj.weight", unit, weights, Init::kNormal, c.deviation)));
      table.push_back(joined(block + "mlp.gate_up_proj.bias", unit, biases, Init::kZeros));
    } else {
      add_linear(table, block + c.names.up.front(), unit, c.intermediate, c.width, c.deviation);
    }
    add_linear(table, block + c.names.down, unit, c.width, c.intermediate, c.deviation);
    if (const int64_t k = c.deepstack_of(layer); k >= 0) {
      const std::string merger = fmt::format("{}deepstack_merger_list.{}.", prefix, k);
      add_merger(table, deepstack_merger_of(c), unit,
                 {merger + c.names.deepstack_norm, merger + c.names.deepstack_up, merger + c.names.deepstack_down});
    }
  }
  const std::string merger = c.names.merger_prefix.empty() ? prefix + "merger." : c.names.merger_prefix;
  add_merger(table, merger_of(c), static_cast<uint32_t>(c.depth + 1),
             {merger + c.names.merger_norm, merger + c.names.merger_up, merger + c.names.merger_down});
  return table;
}

VisionBatch vision_batch(const VisionTowerConfig& c, const std::vector<PatchGrid>& grids, const at::Tensor& pixels,
                         const at::TensorOptions& compute) {
  const at::Device device = compute.device();
  VisionBatch batch;
  for (const PatchGrid& grid : grids)
    TORCH_CHECK(
        grid.frames > 0 && grid.height > 0 && grid.width > 0 && grid.height % c.merge == 0 && grid.width % c.merge == 0,
        "an image's patch grid must be of multiples of ", c.merge, ", got ", grid.frames, " x ", grid.height, " x ",
        grid.width);
  batch.frames.starts = frame_starts(grids);
  const int64_t patches = batch.frames.rows();
  if (pixels.defined()) {
    TORCH_CHECK(pixels.dim() == 2 && pixels.size(0) == patches && pixels.size(1) == c.patch_columns(),
                "pixel_values must be [", patches, ", ", c.patch_columns(), "] for these grids, got ", pixels.sizes());
    batch.pixels = pixels.to(compute);
  }
  at::Tensor positions = integers(patch_positions(grids, c.merge), device).view({2, patches});
  if (c.window > 0) {
    const Windows cut = windows(grids, c.merge, c.window);
    const int64_t unit = c.merge * c.merge;
    std::vector<int64_t> patch_order;
    patch_order.reserve(static_cast<size_t>(patches));
    for (const int64_t token : cut.token_order)
      for (int64_t i = 0; i < unit; ++i) patch_order.push_back(token * unit + i);
    batch.windows.starts = cut.starts;
    batch.patch_order = integers(patch_order, device);
    batch.patch_order_inverse = integers(inverse(patch_order), device);
    batch.token_order = integers(cut.token_order, device);
    batch.token_order_inverse = integers(inverse(cut.token_order), device);
    positions = positions.index_select(1, batch.patch_order);
  }
  batch.rotary = nn::rotary_table(nn::axial_rotary(c.width / c.heads, c.rope_theta), positions);
  if (c.position_side > 0) {
    const Taps taps = bilinear_taps(grids, c.merge, c.position_side);
    batch.taps = integers(taps.row, device).view({patches, 4});
    batch.tap_weights = at::tensor(taps.weight, at::kFloat).to(device).view({patches, 4});
  }
  return batch;
}

VisionStage::VisionStage(VisionTowerConfig config, uint32_t first_unit, uint32_t n_units, nn::ParallelContext parallel)
    : config_(std::move(config)), first_unit_(first_unit), parallel_(std::move(parallel)), units_(n_units) {}

void VisionStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const VisionTowerConfig& c = config_;
  const int64_t number = first_unit_ + unit, layer = number - 1;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  if (number == 0) {
    u.patch = binding.take_linear(c.patch_bias);
    if (c.position_side > 0) u.grid = binding.take();
  } else if (layer < c.depth) {
    u.attention.shape = {c.heads, c.heads, c.width / c.heads, /*causal=*/false};
    u.attention.norm = binding.take_norm(c.norm, kNormEps);
    u.attention.qkv = binding.take_linear(true);
    u.attention.out = binding.take_linear(true);
    u.mlp.activation = c.activation;
    u.mlp.norm = binding.take_norm(c.norm, kNormEps);
    u.mlp.up = binding.take_linear(true);
    u.mlp.down = binding.take_linear(true);
    if (c.deepstack_of(layer) >= 0) u.merger = Merger::take(deepstack_merger_of(c), binding);
  } else {
    u.merger = Merger::take(merger_of(c), binding);
  }
  binding.done();
}

nn::Tensors VisionStage::run(uint32_t unit, const VisionBatch& batch, const nn::Tensors& in) const {
  const Unit& u = units_[unit];
  const int64_t number = first_unit_ + unit, layer = number - 1;
  if (number == 0) {
    at::Tensor hidden = nn::linear(batch.pixels, u.patch);
    if (batch.taps.defined()) hidden = nn::add_interpolated(hidden, u.grid, batch.taps, batch.tap_weights);
    if (batch.patch_order.defined()) hidden = nn::permute_rows(hidden, batch.patch_order, batch.patch_order_inverse);
    return {hidden};
  }
  if (layer < config_.depth) {
    const auto& full = config_.full_layers;
    const bool whole_frames = config_.window == 0 || std::find(full.begin(), full.end(), layer) != full.end();
    at::Tensor hidden =
        nn::self_attention(in[0], u.attention, batch.rotary, whole_frames ? batch.frames : batch.windows);
    hidden = nn::feed_forward(hidden, u.mlp);
    if (config_.deepstack_of(layer) < 0) return {hidden};
    return {hidden, u.merger(hidden)};
  }
  at::Tensor rows = u.merger(in[0]);
  if (batch.token_order.defined()) rows = nn::permute_rows(rows, batch.token_order_inverse, batch.token_order);
  return {rows};
}

std::vector<nn::Step> VisionStage::steps(std::shared_ptr<const VisionBatch> batch,
                                         const std::vector<nn::Recompute>& recompute) const {
  const auto gives = [this](uint32_t unit) {
    const int64_t number = first_unit_ + unit;
    return number == config_.depth + 1 || config_.deepstack_of(number - 1) >= 0;
  };
  return unit_steps(units_, recompute, gives,
                    [this, batch](uint32_t unit, const nn::Tensors& in) { return run(unit, *batch, in); });
}

}  // namespace lf::components
