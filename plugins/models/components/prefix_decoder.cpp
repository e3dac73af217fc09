#include "components/prefix_decoder.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "components/binding.h"
#include "components/gemma_layer.h"
#include "nn/embedding.h"
#include "nn/heads.h"

namespace lf::components {
namespace {

constexpr double kNormOffset = 1;  // files hold a norm's weight minus 1

// A norm as files hold it: y = x / rms(x) · (1 + w).
ParameterSpec norm_spec(const std::string& name, uint32_t unit, int64_t width) {
  return whole(name, unit, {width}, Init::kZeros);
}

nn::Norm take_norm(Binding& binding, double eps) {
  nn::Norm norm = binding.take_norm(nn::NormKind::kRms, eps);
  norm.offset = kNormOffset;
  return norm;
}

// The maps to keys and values alone; of adapters those that add to them. The queries' get no gradient.
nn::Linear keys_and_values(const nn::Linear& qkv, const nn::AttentionShape& shape) {
  const int64_t first = shape.query_width();
  const auto rows = [&](const at::Tensor& t) { return t.defined() ? t.narrow(0, first, t.size(0) - first) : t; };
  nn::Linear part{{rows(qkv.weight.value), rows(qkv.weight.gradient)}, {}};
  if (!qkv.adapted()) return part;
  auto adapters = std::make_shared<nn::Adapters>();
  adapters->draws = qkv.weight.adapters->draws;
  for (nn::Adapter adapter : qkv.weight.adapters->each) {
    adapter.first_column -= first;
    if (adapter.first_column >= 0) adapters->each.push_back(std::move(adapter));
  }
  if (!adapters->each.empty()) part.weight.adapters = std::move(adapters);
  return part;
}

}  // namespace

ParameterTable parameter_table(const PrefixDecoderConfig& c) {
  const GemmaLayerShape shape{c.width, c.intermediate, c.heads, c.kv_heads, c.head_size, c.deviation};
  ParameterTable table;
  table.push_back(whole(c.table_name, 0, {c.vocabulary, c.width}, Init::kNormal, c.deviation));
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    const std::string block = fmt::format("{}layers.{}.", c.prefix, layer);
    table.push_back(norm_spec(block + "input_layernorm.weight", unit, c.width));
    table.push_back(gemma_qkv(shape, block, unit));
    const size_t used = table.size();
    table.push_back(gemma_out(shape, block, unit));
    table.push_back(norm_spec(block + "post_attention_layernorm.weight", unit, c.width));
    table.push_back(gemma_gate_up(shape, block, unit));
    table.push_back(gemma_down(shape, block, unit));
    if (layer + 1 < c.layers) continue;
    table.push_back(norm_spec(c.prefix + "norm.weight", unit, c.width));
    if (!c.spare_head.empty())
      table.push_back(whole(c.spare_head, unit, {c.vocabulary, c.width}, Init::kNormal, c.deviation));
    for (size_t i = used; i < table.size(); ++i) table[i].dead = true;
  }
  return table;
}

PrefixBatch prefix_batch(const PrefixDecoderConfig& config, const at::Tensor& ids, const at::Tensor& text_places,
                         const at::Tensor& visual_places, nn::Segments segments) {
  const int64_t rows = ids.size(0) + visual_places.size(0);
  TORCH_CHECK(text_places.sizes() == ids.sizes() && segments.rows() == rows, "a prefix of ", segments.rows(),
              " rows has ", text_places.size(0), " places of text, ", ids.size(0), " ids and ", visual_places.size(0),
              " rows of images");
  if (ids.size(0) > 0) {
    const auto [low, high] = ids.aminmax();
    TORCH_CHECK(low.item<int64_t>() >= 0 && high.item<int64_t>() < config.vocabulary, "token_ids must lie in [0, ",
                config.vocabulary, "), got ", low.item<int64_t>(), " to ", high.item<int64_t>());
  }
  const at::Tensor places = at::cat({text_places, visual_places});
  TORCH_CHECK(std::get<0>(places.sort()).equal(at::arange(rows, places.options())),
              "text_places and visual_places must be the ", rows, " rows of the prefixes, each once");
  std::vector<int64_t> positions;
  for (size_t s = 0; s < segments.count(); ++s)
    for (int64_t row = segments.starts[s]; row < segments.starts[s + 1]; ++row)
      positions.push_back(row - segments.starts[s]);
  PrefixBatch batch{ids, text_places, visual_places, std::move(segments), {}};
  batch.rotary = nn::rotary_table(nn::plain_rotary(config.head_size, config.rope_theta),
                                  at::tensor(positions, at::kLong).unsqueeze(0).to(ids.device()));
  return batch;
}

PrefixStage::PrefixStage(PrefixDecoderConfig config, uint32_t first_unit, uint32_t n_units)
    : config_(std::move(config)), first_unit_(first_unit), units_(n_units) {}

void PrefixStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const PrefixDecoderConfig& c = config_;
  const int64_t number = first_unit_ + unit;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  if (number == 0) {
    u.table = binding.take();
  } else {
    u.attention.shape = {.heads = c.heads, .kv_heads = c.kv_heads, .head_size = c.head_size};
    u.attention.norm = take_norm(binding, c.norm_eps);
    u.attention.qkv = binding.take_linear(false);
    u.attention.out = binding.take_linear(false);
    u.mlp.activation = nn::Activation::kGatedGeluTanh;
    u.mlp.norm = take_norm(binding, c.norm_eps);
    u.mlp.up = binding.take_linear(false);
    u.mlp.down = binding.take_linear(false);
    if (number == c.layers) binding.take();  // the final norm
    if (number == c.layers && !c.spare_head.empty()) binding.take();
  }
  binding.done();
}

nn::Tensors PrefixStage::begin(const Unit& unit, const PrefixBatch& batch, const at::Tensor& visual) const {
  const int64_t images = batch.visual_places.size(0);
  TORCH_CHECK((visual.defined() ? visual.size(0) : 0) == images, "edge \"visual\" brings ",
              visual.defined() ? visual.size(0) : 0, " rows for ", images, " places (visual_places)");
  // The factor is rounded to the compute type, as the reference's is.
  const at::Tensor scale = at::scalar_tensor(std::sqrt(static_cast<double>(config_.width)), unit.table.value.options());
  const at::Tensor text = nn::embed(batch.ids, unit.table, {}, {}, -1) * scale;
  if (images == 0) return {nn::join_rows({text}, {batch.text_places})};
  return {nn::join_rows({text, visual}, {batch.text_places, batch.visual_places})};
}

nn::Tensors PrefixStage::layer(const Unit& unit, bool last, const PrefixBatch& batch, const at::Tensor& x) const {
  const nn::SelfAttention& attention = unit.attention;
  if (last) return {nn::norm_linear(x, attention.norm, keys_and_values(attention.qkv, attention.shape))};
  const at::Tensor qkv = nn::norm_linear(x, attention.norm, attention.qkv);
  const at::Tensor attended = nn::attention(qkv, attention.shape, {}, batch.rotary, batch.segments);
  const at::Tensor between = nn::linear_add(attended, attention.out, x);
  const int64_t memory = config_.memory_columns();
  return {nn::feed_forward(between, unit.mlp), qkv.narrow(1, qkv.size(1) - memory, memory)};
}

std::vector<nn::Step> PrefixStage::steps(std::shared_ptr<const PrefixBatch> batch,
                                         const std::vector<nn::Recompute>& recompute) const {
  std::vector<nn::Step> steps;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    const Unit* unit = &units_[i];
    const int64_t number = first_unit_ + i;
    nn::Step step{i, recompute[i], unit->trains, 0, 0, {}};
    if (number == 0) {
      step.edges_in = 1;
      step.run = [this, unit, batch](const nn::Tensors& in) { return begin(*unit, *batch, in[0]); };
    } else {
      const bool last = number == config_.layers;
      step.edges_out = 1;
      step.run = [this, unit, last, batch](const nn::Tensors& in) { return layer(*unit, last, *batch, in[0]); };
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace lf::components
