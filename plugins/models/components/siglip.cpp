#include "components/siglip.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "components/binding.h"
#include "components/merger.h"
#include "components/unit_steps.h"
#include "nn/embedding.h"

namespace lf::components {
namespace {

void add_qkv(ParameterTable& table, const SiglipConfig& c, const std::string& attention, uint32_t unit) {
  std::vector<Part> weights, biases;
  for (const char* which : {"q", "k", "v"}) {
    weights.push_back({fmt::format("{}{}_proj.weight", attention, which), {c.width, c.width}});
    biases.push_back({fmt::format("{}{}_proj.bias", attention, which), {c.width}});
  }
  table.push_back(
      linear_map(joined(attention + "qkv_proj.weight", unit, std::move(weights), Init::kNormal, c.deviation)));
  table.push_back(joined(attention + "qkv_proj.bias", unit, std::move(biases), Init::kZeros));
}

}  // namespace

ParameterTable parameter_table(const SiglipConfig& c) {
  ParameterTable table;
  const std::string embeddings = c.tower + "embeddings.";
  table.push_back(whole(embeddings + "patch_embedding.weight", 0, {c.width, c.channels, c.patch, c.patch},
                        Init::kNormal, c.deviation));
  table.push_back(whole(embeddings + "patch_embedding.bias", 0, {c.width}, Init::kZeros));
  table.push_back(
      whole(embeddings + "position_embedding.weight", 0, {c.image_patches(), c.width}, Init::kNormal, c.deviation));
  for (int64_t layer = 0; layer < c.depth; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    const std::string block = fmt::format("{}encoder.layers.{}.", c.tower, layer);
    add_norm(table, block + "layer_norm1", unit, c.width, nn::NormKind::kLayer);
    add_qkv(table, c, block + "self_attn.", unit);
    add_linear(table, block + "self_attn.out_proj", unit, c.width, c.width, c.deviation);
    add_norm(table, block + "layer_norm2", unit, c.width, nn::NormKind::kLayer);
    add_linear(table, block + "mlp.fc1", unit, c.intermediate, c.width, c.deviation);
    add_linear(table, block + "mlp.fc2", unit, c.width, c.intermediate, c.deviation);
  }
  const auto last = static_cast<uint32_t>(c.depth + 1);
  add_norm(table, c.tower + "post_layernorm", last, c.width, nn::NormKind::kLayer);
  add_linear(table, c.projector, last, c.out_width, c.width, c.deviation);
  return table;
}

SiglipBatch siglip_batch(const SiglipConfig& c, int64_t n_images, const at::Tensor& pixels,
                         const at::TensorOptions& compute) {
  const at::Device device = compute.device();
  const int64_t n = c.image_patches();
  SiglipBatch batch;
  if (pixels.defined()) {
    TORCH_CHECK(pixels.dim() == 2 && pixels.size(0) == n_images * n && pixels.size(1) == c.patch_columns(),
                "pixel_values must be [", n_images * n, ", ", c.patch_columns(), "] for ", n_images, " images, got ",
                pixels.sizes());
    batch.pixels = pixels.to(compute);
  }
  for (int64_t image = 1; image <= n_images; ++image) batch.images.starts.push_back(image * n);
  batch.taps = at::arange(n, at::kLong).repeat({n_images}).unsqueeze(1).to(device);
  batch.tap_weights = at::ones({n_images * n, 1}, at::TensorOptions(at::kFloat).device(device));
  return batch;
}

SiglipStage::SiglipStage(SiglipConfig config, uint32_t first_unit, uint32_t n_units)
    : config_(std::move(config)), first_unit_(first_unit), units_(n_units) {}

void SiglipStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const SiglipConfig& c = config_;
  const int64_t number = first_unit_ + unit;
  constexpr auto kLayer = nn::NormKind::kLayer;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  if (number == 0) {
    u.patch = binding.take_linear(true);
    u.positions = binding.take();
  } else if (number <= c.depth) {
    u.attention.shape = {.heads = c.heads, .kv_heads = c.heads, .head_size = c.width / c.heads};
    u.attention.norm = binding.take_norm(kLayer, c.norm_eps);
    u.attention.qkv = binding.take_linear(true);
    u.attention.out = binding.take_linear(true);
    u.mlp.activation = nn::Activation::kGeluTanh;
    u.mlp.norm = binding.take_norm(kLayer, c.norm_eps);
    u.mlp.up = binding.take_linear(true);
    u.mlp.down = binding.take_linear(true);
  } else {
    u.norm = binding.take_norm(kLayer, c.norm_eps);
    u.projector = binding.take_linear(true);
  }
  binding.done();
}

nn::Tensors SiglipStage::run(uint32_t unit, const SiglipBatch& batch, const nn::Tensors& in) const {
  const Unit& u = units_[unit];
  const int64_t number = first_unit_ + unit;
  if (number == 0)
    return {nn::add_interpolated(nn::linear(batch.pixels, u.patch), u.positions, batch.taps, batch.tap_weights)};
  if (number <= config_.depth)
    return {nn::feed_forward(nn::self_attention(in[0], u.attention, {}, batch.images), u.mlp)};
  return {nn::norm_linear(in[0], u.norm, u.projector)};
}

std::vector<nn::Step> SiglipStage::steps(std::shared_ptr<const SiglipBatch> batch,
                                         const std::vector<nn::Recompute>& recompute) const {
  return unit_steps(
      units_, recompute, [this](uint32_t unit) { return first_unit_ + unit == config_.depth + 1; },
      [this, batch](uint32_t unit, const nn::Tensors& in) { return run(unit, *batch, in); });
}

}  // namespace lf::components
