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

ParameterSpec table_spec(const LanguageDecoderConfig& c, const std::string& name, uint32_t unit) {
  ParameterSpec spec = whole(name, unit, {c.vocabulary, c.width}, Init::kNormal, c.deviation);
  spec.parts[0].along = Along::kTensor;
  spec.parts[0].piece = kVocabularyPiece;
  return spec;
}

// q, k and v in one: cut by key/value groups.
ParameterSpec qkv_spec(const LanguageDecoderConfig& c, const std::string& block, uint32_t unit, bool bias) {
  const auto part = [&](const char* which, int64_t heads, int64_t piece_heads, bool copy) {
    Part p{fmt::format("{}self_attn.{}_proj.{}", block, which, bias ? "bias" : "weight"),
           {heads * c.head_size},
           Along::kTensor};
    if (!bias) p.shape.push_back(c.width);
    p.piece = piece_heads * c.head_size;
    p.copy = copy;
    return p;
  };
  return joined(
      fmt::format("{}self_attn.qkv_proj.{}", block, bias ? "bias" : "weight"), unit,
      {part("q", c.heads, c.heads / c.kv_heads, false), part("k", c.kv_heads, 1, true), part("v", c.kv_heads, 1, true)},
      bias ? Init::kZeros : Init::kNormal, c.deviation);
}

ParameterSpec row_cut(ParameterSpec spec, int64_t piece) {  // the input axis is cut
  spec.parts[0].along = Along::kTensor;
  spec.parts[0].axis = 1;
  spec.parts[0].piece = piece;
  return spec;
}

void add_experts(ParameterTable& table, const LanguageDecoderConfig& c, const std::string& block, uint32_t unit) {
  const ExpertsConfig& e = c.experts;
  table.push_back(whole(block + "mlp.gate.weight", unit, {e.count, c.width}, Init::kNormal, c.deviation));
  for (auto& [name, shape] :
       {std::pair{"mlp.experts.gate_up_proj", std::vector<int64_t>{e.count, c.width, 2 * e.width}},
        std::pair{"mlp.experts.down_proj", std::vector<int64_t>{e.count, e.width, c.width}}}) {
    table.push_back(whole(block + name, unit, shape, Init::kNormal, c.deviation));
    table.back().parts[0].along = Along::kExpert;
    table.back().expert = true;
  }
}

// Segment of every row's supervised count: f64 [S].
at::Tensor supervised_rows(const DecoderBatch& batch) {
  at::Tensor counts = at::empty({static_cast<int64_t>(batch.segments.count())}, at::kDouble);
  const at::Tensor supervised = (batch.targets >= 0).to(at::kLong).cpu();
  for (size_t s = 0; s < batch.segments.count(); ++s)
    counts[static_cast<int64_t>(s)] =
        supervised.slice(0, batch.segments.starts[s], batch.segments.starts[s + 1]).sum().item<int64_t>();
  return counts;
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
  table.push_back(table_spec(c, c.prefix + "embed_tokens.weight", 0));
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    const std::string block = fmt::format("{}layers.{}.", c.prefix, layer);
    table.push_back(whole(block + "input_layernorm.weight", unit, {c.width}, Init::kOnes));
    table.push_back(qkv_spec(c, block, unit, false));
    if (c.qkv_bias) table.push_back(qkv_spec(c, block, unit, true));
    if (c.head_norms) {
      table.push_back(whole(block + "self_attn.q_norm.weight", unit, {c.head_size}, Init::kOnes));
      table.push_back(whole(block + "self_attn.k_norm.weight", unit, {c.head_size}, Init::kOnes));
    }
    table.push_back(row_cut(
        whole(block + "self_attn.o_proj.weight", unit, {c.width, c.heads * c.head_size}, Init::kNormal, c.deviation),
        c.heads / c.kv_heads * c.head_size));
    table.push_back(whole(block + "post_attention_layernorm.weight", unit, {c.width}, Init::kOnes));
    if (c.is_sparse(layer)) {
      add_experts(table, c, block, unit);
      continue;
    }
    const std::vector<int64_t> shape = {c.intermediate, c.width};
    table.push_back(joined(block + "mlp.gate_up_proj.weight", unit,
                           {{block + "mlp.gate_proj.weight", shape, Along::kTensor},
                            {block + "mlp.up_proj.weight", shape, Along::kTensor}},
                           Init::kNormal, c.deviation));
    table.push_back(
        row_cut(whole(block + "mlp.down_proj.weight", unit, {c.width, c.intermediate}, Init::kNormal, c.deviation), 1));
  }
  const auto last = static_cast<uint32_t>(c.layers + 1);
  table.push_back(whole(c.prefix + "norm.weight", last, {c.width}, Init::kOnes));
  table.push_back(table_spec(c, c.head_name, last));
  if (c.tied) {
    table.back().tied_to = 0;
    table.back().parts = table.front().parts;
  }
  return table;
}

DecoderBatch decoder_batch(const LanguageDecoderConfig& config, const at::Tensor& ids, const at::Tensor& targets,
                           const at::Tensor& positions, nn::Segments segments, const at::Tensor& places) {
  const int64_t n = ids.size(0);
  TORCH_CHECK(targets.sizes() == ids.sizes(), "targets must be [", n, "], got ", targets.sizes());
  TORCH_CHECK(positions.dim() == 2 && positions.size(0) == 3 && positions.size(1) == n, "position_ids must be [3, ", n,
              "], got ", positions.sizes());
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
    u.table = binding.take();
  } else if (layer < c.layers) {
    u.attention.shape = {c.heads, c.kv_heads, c.head_size, /*causal=*/true};
    u.attention.norm = binding.take_norm(kRms, c.norm_eps);
    u.attention.qkv = binding.take_linear(c.qkv_bias);
    if (c.head_norms) {
      u.attention.head_norms.query = binding.take_norm(kRms, c.norm_eps);
      u.attention.head_norms.key = binding.take_norm(kRms, c.norm_eps);
    }
    u.attention.out = binding.take_linear(false);
    if (c.is_sparse(layer)) {
      u.sparse.top_k = c.experts.per_token;
      u.sparse.norm = binding.take_norm(kRms, c.norm_eps);
      u.sparse.router = binding.take();
      u.sparse.experts.gate_up = binding.take();
      u.sparse.experts.down = binding.take();
    } else {
      u.mlp.activation = nn::Activation::kGatedSilu;
      u.mlp.norm = binding.take_norm(kRms, c.norm_eps);
      u.mlp.up = binding.take_linear(false);
      u.mlp.down = binding.take_linear(false);
    }
  } else {
    u.norm = binding.take_norm(kRms, c.norm_eps);
    u.head = binding.take();
  }
  binding.done();
}

nn::Tensors LanguageStage::begin(const Unit& unit, const DecoderBatch& batch, const nn::Tensors& in) const {
  const at::Tensor& rows = in[0];
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
  const nn::TokenLoss loss =
      nn::token_loss(in[0], unit.norm, unit.head, batch.targets, {.gradient_scale = batch.gradient_scale});
  at::Tensor total = loss.sum;
  result.loss_weight = loss.count;
  if (config_.carries_statistics()) {
    const bool pooled = config_.experts.balance == BalanceLoss::kPerBatch;
    at::Tensor statistics = in[1].to(at::kDouble), weights = supervised_rows(batch).to(in[1].device());
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
      step.edges_in = 1;
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
