#include "components/language_decoder.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "components/binding.h"
#include "nn/embedding.h"

namespace lf::components {
namespace {

constexpr int64_t kVocabularyPiece = 64;  // rows of the table that stay together when it is cut

struct Names {
  const char *table, *input_norm, *q_norm, *k_norm, *out, *post_norm, *gate, *up, *down;
};
const Names& names_of(DecoderNaming naming) {
  static constexpr Names kTransformers = {
      "embed_tokens.weight",     "input_layernorm.weight",  "self_attn.q_norm.weight",
      "self_attn.k_norm.weight", "self_attn.o_proj.weight", "post_attention_layernorm.weight",
      "mlp.gate_proj.weight",    "mlp.up_proj.weight",      "mlp.down_proj.weight"};
  static constexpr Names kInternLm2 = {"tok_embeddings.weight",   "attention_norm.weight",  "attention.q_norm.weight",
                                       "attention.k_norm.weight", "attention.wo.weight",    "ffn_norm.weight",
                                       "feed_forward.w1.weight",  "feed_forward.w3.weight", "feed_forward.w2.weight"};
  return naming == DecoderNaming::kInternLm2 ? kInternLm2 : kTransformers;
}

ParameterSpec table_spec(const LanguageDecoderConfig& c, const std::string& name, uint32_t unit) {
  ParameterSpec spec = whole(name, unit, {c.vocabulary, c.width}, Init::kNormal, c.deviation);
  spec.parts[0].along = Along::kTensor;
  spec.parts[0].piece = kVocabularyPiece;
  spec.linear = true;
  (unit == 0 ? spec.lookup : spec.logits) = true;
  return spec;
}

// q, k and v in one: cut by key/value groups.
ParameterSpec qkv_spec(const LanguageDecoderConfig& c, const std::string& block, uint32_t unit, bool bias) {
  if (c.naming == DecoderNaming::kInternLm2) {
    std::vector<int64_t> shape = {(c.heads + 2 * c.kv_heads) * c.head_size};
    if (!bias) shape.push_back(c.width);
    ParameterSpec spec = whole(fmt::format("{}attention.wqkv.{}", block, bias ? "bias" : "weight"), unit, shape,
                               bias ? Init::kZeros : Init::kNormal, c.deviation);
    spec.parts[0].along = Along::kTensor;
    spec.parts[0].piece = (c.heads / c.kv_heads + 2) * c.head_size;
    spec.linear = !bias;
    return spec;
  }
  const auto part = [&](const char* which, int64_t heads, int64_t piece_heads, bool copy) {
    Part p{fmt::format("{}self_attn.{}_proj.{}", block, which, bias ? "bias" : "weight"),
           {heads * c.head_size},
           Along::kTensor};
    if (!bias) p.shape.push_back(c.width);
    p.piece = piece_heads * c.head_size;
    p.copy = copy;
    return p;
  };
  ParameterSpec spec = joined(
      fmt::format("{}self_attn.qkv_proj.{}", block, bias ? "bias" : "weight"), unit,
      {part("q", c.heads, c.heads / c.kv_heads, false), part("k", c.kv_heads, 1, true), part("v", c.kv_heads, 1, true)},
      bias ? Init::kZeros : Init::kNormal, c.deviation);
  spec.linear = !bias;
  return spec;
}

ParameterSpec row_cut(ParameterSpec spec, int64_t piece) {  // of a linear map, whose input axis is cut
  spec.linear = true;
  spec.parts[0].along = Along::kTensor;
  spec.parts[0].axis = 1;
  spec.parts[0].piece = piece;
  return spec;
}

void add_experts(ParameterTable& table, const LanguageDecoderConfig& c, const std::string& block, uint32_t unit) {
  const ExpertsConfig& e = c.experts;
  table.push_back(whole(block + "mlp.gate.weight", unit, {e.count, c.width}, Init::kNormal, c.deviation));
  if (e.one_by_one) {
    const auto stacked = [&](const char* which, int64_t in, int64_t out) {
      Part part{fmt::format("{}mlp.experts.{{}}.{}_proj.weight", block, which), {e.count, in, out}, Along::kExpert};
      part.transposed = true;
      part.stack = e.count;
      return part;
    };
    table.push_back(joined(block + "mlp.experts.gate_up_proj", unit,
                           {stacked("gate", c.width, e.width), stacked("up", c.width, e.width)}, Init::kNormal,
                           c.deviation, 2));
    table.back().expert = table.back().linear = true;
    table.push_back(
        joined(block + "mlp.experts.down_proj", unit, {stacked("down", e.width, c.width)}, Init::kNormal, c.deviation));
    table.back().expert = table.back().linear = true;
    return;
  }
  for (auto& [name, shape] :
       {std::pair{"mlp.experts.gate_up_proj", std::vector<int64_t>{e.count, c.width, 2 * e.width}},
        std::pair{"mlp.experts.down_proj", std::vector<int64_t>{e.count, e.width, c.width}}}) {
    table.push_back(whole(block + name, unit, shape, Init::kNormal, c.deviation));
    table.back().parts[0].along = Along::kExpert;
    table.back().expert = table.back().linear = true;
  }
}

// What each segment's loss weighs: its supervised rows, or the sum of their weights. f64 [S].
at::Tensor segment_weights(const DecoderBatch& batch) {
  at::Tensor sums = at::empty({static_cast<int64_t>(batch.segments.count())}, at::kDouble);
  at::Tensor weights = (batch.targets >= 0).to(at::kDouble);
  if (batch.weights.defined()) weights.mul_(batch.weights);
  weights = weights.cpu();
  for (size_t s = 0; s < batch.segments.count(); ++s)
    sums[static_cast<int64_t>(s)] = weights.slice(0, batch.segments.starts[s], batch.segments.starts[s + 1]).sum();
  return sums;
}

at::Tensor segment_rows(const nn::Segments& segments) {
  std::vector<double> rows;
  for (size_t s = 0; s < segments.count(); ++s)
    rows.push_back(static_cast<double>(segments.starts[s + 1] - segments.starts[s]));
  return at::tensor(rows, at::kDouble);
}

}  // namespace

int64_t LanguageDecoderConfig::sparse_count() const {
  return std::count(experts.sparse_layers.begin(), experts.sparse_layers.end(), true);
}

ParameterTable parameter_table(const LanguageDecoderConfig& c) {
  ParameterTable table;
  const Names& names = names_of(c.naming);
  table.push_back(table_spec(c, c.prefix + names.table, 0));
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    const std::string block = fmt::format("{}layers.{}.", c.prefix, layer);
    table.push_back(whole(block + names.input_norm, unit, {c.width}, Init::kOnes));
    table.push_back(qkv_spec(c, block, unit, false));
    if (c.qkv_bias) table.push_back(qkv_spec(c, block, unit, true));
    if (c.head_norms) {
      table.push_back(whole(block + names.q_norm, unit, {c.head_size}, Init::kOnes));
      table.push_back(whole(block + names.k_norm, unit, {c.head_size}, Init::kOnes));
    }
    table.push_back(
        row_cut(whole(block + names.out, unit, {c.width, c.heads * c.head_size}, Init::kNormal, c.deviation),
                c.heads / c.kv_heads * c.head_size));
    table.push_back(whole(block + names.post_norm, unit, {c.width}, Init::kOnes));
    if (c.is_sparse(layer)) {
      add_experts(table, c, block, unit);
      continue;
    }
    const std::vector<int64_t> shape = {c.intermediate, c.width};
    table.push_back(
        linear_map(joined(block + "mlp.gate_up_proj.weight", unit,
                          {{block + names.gate, shape, Along::kTensor}, {block + names.up, shape, Along::kTensor}},
                          Init::kNormal, c.deviation)));
    table.push_back(row_cut(whole(block + names.down, unit, {c.width, c.intermediate}, Init::kNormal, c.deviation), 1));
  }
  const auto last = static_cast<uint32_t>(c.layers + 1);
  table.push_back(whole(c.prefix + "norm.weight", last, {c.width}, Init::kOnes));
  table.push_back(table_spec(c, c.head_name, last));
  if (c.tied) table.back().tied_to = 0;
  return table;
}

DecoderBatch decoder_batch(const LanguageDecoderConfig& config, const at::Tensor& ids, const at::Tensor& targets,
                           const at::Tensor& positions, nn::Segments segments, const at::Tensor& places) {
  const int64_t n = ids.size(0);
  TORCH_CHECK(targets.sizes() == ids.sizes(), "targets must be [", n, "], got ", targets.sizes());
  const int64_t axes = 1 + *std::max_element(config.rotary.axis.begin(), config.rotary.axis.end());
  TORCH_CHECK(positions.dim() == 2 && positions.size(0) >= axes && positions.size(1) == n, "position_ids must be [",
              axes, ", ", n, "], got ", positions.sizes());
  TORCH_CHECK(segments.rows() == n && std::is_sorted(segments.starts.begin(), segments.starts.end()) &&
                  segments.starts.front() == 0,
              "segment_starts must ascend from 0 to the ", n, " rows");
  if (n > 0) {
    const auto [low, high] = ids.aminmax();
    TORCH_CHECK(low.item<int64_t>() >= 0 && high.item<int64_t>() < config.vocabulary, "input_ids must lie in [0, ",
                config.vocabulary, "), got ", low.item<int64_t>(), " to ", high.item<int64_t>());
    TORCH_CHECK(targets.max().item<int64_t>() < config.vocabulary, "targets must lie below ", config.vocabulary,
                ", got ", targets.max().item<int64_t>());
  }
  if (places.defined() && places.numel() > 0) {
    const at::Tensor steps = places.diff();
    TORCH_CHECK(places[0].item<int64_t>() >= 0 && places[-1].item<int64_t>() < n && (steps > 0).all().item<bool>(),
                "visual_rows must ascend within the ", n, " rows");
  }
  DecoderBatch batch;
  batch.ids = ids;
  batch.targets = targets;
  batch.segments = std::move(segments);
  batch.rotary = nn::rotary_table(config.rotary, positions);
  batch.places = places;
  batch.result = std::make_shared<DecoderResult>();
  return batch;
}

LanguageStage::LanguageStage(LanguageDecoderConfig config, uint32_t first_unit, uint32_t n_units,
                             nn::ParallelContext parallel)
    : config_(std::move(config)), first_unit_(first_unit), parallel_(std::move(parallel)), units_(n_units) {}

void LanguageStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const LanguageDecoderConfig& c = config_;
  const int64_t number = first_unit_ + unit, layer = number - 1;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  constexpr auto kRms = nn::NormKind::kRms;
  if (number == 0) {
    u.table = binding.take_adaptable();
  } else if (layer < c.layers) {
    const bool grouped = c.naming == DecoderNaming::kInternLm2;
    u.attention.shape = {c.heads, c.kv_heads, c.head_size, /*causal=*/true,
                         grouped ? nn::QkvLayout::kByGroup : nn::QkvLayout::kByKind};
    u.attention.norm = binding.take_norm(kRms, c.norm_eps);
    u.attention.qkv = binding.take_linear(c.qkv_bias);
    if (c.head_norms) {
      u.attention.head_norms.query = binding.take_norm(kRms, c.norm_eps);
      u.attention.head_norms.key = binding.take_norm(kRms, c.norm_eps);
    }
    u.attention.out = binding.take_linear(false);
    if (c.is_sparse(layer)) {
      u.sparse.routing = {c.experts.per_token, c.experts.normalise};
      u.sparse.norm = binding.take_norm(kRms, c.norm_eps);
      u.sparse.router = binding.take();
      u.sparse.experts.gate_up = binding.take_adaptable();
      u.sparse.experts.down = binding.take_adaptable();
    } else {
      u.mlp.activation = nn::Activation::kGatedSilu;
      u.mlp.norm = binding.take_norm(kRms, c.norm_eps);
      u.mlp.up = binding.take_linear(false);
      u.mlp.down = binding.take_linear(false);
    }
  } else {
    u.norm = binding.take_norm(kRms, c.norm_eps);
    u.head = binding.take_adaptable();
  }
  binding.done();
}

nn::Tensors LanguageStage::begin(const Unit& unit, const DecoderBatch& batch, const nn::Tensors& in) const {
  const at::Tensor rows = config_.takes_rows ? in[0] : at::Tensor();
  TORCH_CHECK(rows.defined() == batch.places.defined() && (!rows.defined() || rows.size(0) == batch.places.size(0)),
              "edge \"visual\" brings ", rows.defined() ? rows.size(0) : 0, " rows for ",
              batch.places.defined() ? batch.places.size(0) : 0, " places (visual_rows)");
  const at::Tensor hidden = nn::embed(batch.ids, unit.table, rows, batch.places, config_.padding_id);
  if (!config_.carries_statistics()) return {hidden};
  const auto type = hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {hidden, at::zeros({static_cast<int64_t>(batch.segments.count()), 2 * config_.experts.count},
                            hidden.options().dtype(type))};
}

nn::Tensors LanguageStage::layer(const Unit& unit, int64_t number, const DecoderBatch& batch,
                                 const nn::Tensors& in) const {
  nn::Tensors out = {nn::self_attention(in[0], unit.attention, batch.rotary, batch.segments)};
  const bool counts = config_.carries_statistics();
  if (counts) out.push_back(in[1]);
  if (config_.is_sparse(number)) {
    const nn::SparseResult result = nn::sparse_feed_forward(out[0], unit.sparse);
    out[0] = result.y;
    if (counts) out[1] = in[1] + nn::routing_statistics(result.routing, batch.segments);
  } else {
    out[0] = nn::feed_forward(out[0], unit.mlp);
  }
  if (number < config_.deepstack && in.back().defined()) out[0] = nn::add_rows(out[0], in.back(), batch.places);
  return out;
}

nn::Tensors LanguageStage::end(const Unit& unit, const DecoderBatch& batch, const nn::Tensors& in) const {
  DecoderResult& result = *batch.result;
  const nn::TokenLoss loss = nn::token_loss(in[0], unit.norm, unit.head, batch.targets,
                                            {.gradient_scale = batch.gradient_scale, .weights = batch.weights});
  at::Tensor total = loss.sum;
  result.loss_weight = loss.weight;
  if (config_.carries_statistics()) {
    const bool pooled = config_.experts.balance == BalanceLoss::kPerBatch;
    at::Tensor statistics = in[1].to(at::kDouble), weights = segment_weights(batch).to(in[1].device());
    at::Tensor rows = segment_rows(batch.segments).to(in[1].device()) * static_cast<double>(config_.sparse_count());
    if (pooled) {
      statistics = statistics.sum(0, true);
      rows = rows.sum(0, true);
      weights = weights.sum(0, true);
    }
    const at::Tensor balance = (nn::balance_loss(statistics, rows) * weights).sum();
    result.balance_sum = balance.item<double>();
    total = total + config_.experts.balance_coefficient * balance;
  }
  result.loss_sum = total.item<double>();
  if (batch.outputs) {
    result.logits = nn::all_logits(in[0], unit.norm, unit.head);
    result.token_loss = at::zeros({batch.targets.size(0)}, loss.each.options()).index_copy_(0, loss.rows, loss.each);
  }
  return {total};
}

std::vector<nn::Step> LanguageStage::steps(std::shared_ptr<const DecoderBatch> batch,
                                           const std::vector<nn::Recompute>& recompute) const {
  std::vector<nn::Step> steps;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    const Unit* unit = &units_[i];
    const int64_t number = first_unit_ + i, layer_number = number - 1;
    nn::Step step{i, recompute[i], unit->trains, 0, 0, {}};
    if (number == 0) {
      step.edges_in = config_.takes_rows ? 1 : 0;
      step.run = [this, unit, batch](const nn::Tensors& in) { return begin(*unit, *batch, in); };
    } else if (layer_number < config_.layers) {
      step.edges_in = layer_number < config_.deepstack ? 1 : 0;
      step.run = [this, unit, layer_number, batch](const nn::Tensors& in) {
        return layer(*unit, layer_number, *batch, in);
      };
    } else {
      // Its gradients may be made in forward (TokenLossConfig), and it keeps the supervised rows only.
      step.recompute = nn::Recompute::kNone;
      step.run = [this, unit, batch](const nn::Tensors& in) { return end(*unit, *batch, in); };
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace lf::components
