#include "components/latent_decoder.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "components/binding.h"
#include "nn/embedding.h"
#include "nn/precision.h"

namespace lf::components {
namespace {

constexpr double kLatentNormEps =
    1e-6;                         // of q_a_layernorm, kv_a_layernorm and the indexer's, whatever rms_norm_eps says
constexpr int64_t kNoNextId = 0;  // what the module looks up after a sequence's last row, which learns nothing

// row i -> row i + 1 of the same segment; `last` in each segment's last row.
at::Tensor shifted(const at::Tensor& rows, const nn::Segments& segments, int64_t last) {
  at::Tensor next = at::full_like(rows, last);
  if (rows.size(0) < 2) return next;
  next.narrow(0, 0, rows.size(0) - 1).copy_(rows.narrow(0, 1, rows.size(0) - 1));
  for (size_t s = 0; s < segments.count(); ++s)
    if (segments.starts[s] < segments.starts[s + 1]) next[segments.starts[s + 1] - 1] = last;
  return next;
}

// [1, N]: counted from each segment's first row.
at::Tensor positions_of(const nn::Segments& segments, const at::Device& device) {
  nn::Tensors parts;
  for (size_t s = 0; s < segments.count(); ++s)
    parts.push_back(at::arange(segments.starts[s + 1] - segments.starts[s], at::kLong));
  return (parts.empty() ? at::empty({0}, at::kLong) : at::cat(parts)).unsqueeze(0).to(device);
}

// Sums over each segment's rows of what is supervised there: [S].
at::Tensor supervised_per_segment(const LatentDecoderBatch& batch) {
  const at::Tensor supervised = (batch.targets >= 0).to(at::kDouble);
  nn::Tensors sums;
  for (size_t s = 0; s < batch.segments.count(); ++s)
    sums.push_back(supervised.slice(0, batch.segments.starts[s], batch.segments.starts[s + 1]).sum());
  return at::stack(sums);
}

at::Tensor spread(const nn::TokenLoss& loss, int64_t n) {
  return at::zeros({n}, loss.each.options()).index_copy_(0, loss.rows, loss.each);
}

LatentDecoderStage::Layer take_layer(Binding& binding, const LatentDecoderConfig& c, bool sparse) {
  constexpr auto kRms = nn::NormKind::kRms;
  LatentDecoderStage::Layer layer;
  layer.norm = binding.take_norm(kRms, c.norm_eps);
  layer.down = binding.take_linear(false);
  if (c.query_rank > 0) {
    layer.query_norm = binding.take_norm(kRms, kLatentNormEps);
    layer.query = binding.take_linear(false);
  }
  layer.latent_norm = binding.take_norm(kRms, kLatentNormEps);
  layer.kv_b = binding.take_linear(false).weight;  // where rows are selected it is read as a table, without adapters
  if (c.indexed) {
    layer.indexer.query = binding.take_linear(false);
    layer.indexer.key = binding.take_linear(false);
    layer.indexer.key_norm = binding.take_norm(nn::NormKind::kLayer, kLatentNormEps);
    layer.indexer.weights = binding.take();
  }
  layer.out = binding.take_linear(false);
  layer.mlp.activation = nn::Activation::kGatedSilu;
  layer.mlp.norm = binding.take_norm(kRms, c.norm_eps);
  if (sparse) {
    layer.router = binding.take();
    layer.router_bias = binding.take();
    layer.experts.gate_up = binding.take_adaptable();
    layer.experts.down = binding.take_adaptable();
  }
  layer.mlp.up = binding.take_linear(false);
  layer.mlp.down = binding.take_linear(false);
  return layer;
}

nn::Selection selections(const nn::SparseInputs& in, const nn::IndexShape& index, const nn::Segments& segments) {
  int64_t longest = 0;
  for (size_t s = 0; s < segments.count(); ++s)
    longest = std::max(longest, segments.starts[s + 1] - segments.starts[s]);
  nn::Tensors scores, selected;
  for (size_t s = 0; s < segments.count(); ++s) {
    const int64_t begin = segments.starts[s], length = segments.starts[s + 1] - begin;
    const auto part = [&](const at::Tensor& t) { return t.detach().narrow(0, begin, length); };
    const nn::Selection one = nn::select_rows(part(in.index_query), part(in.index_key), part(in.index_weight), index);
    scores.push_back(at::constant_pad_nd(one.scores, {0, longest - length}));
    selected.push_back(at::constant_pad_nd(one.selected, {0, longest - length}));
  }
  return {at::cat(scores), at::cat(selected)};
}

}  // namespace

LatentDecoderBatch latent_decoder_batch(const LatentDecoderConfig& config, const at::Tensor& ids,
                                        const at::Tensor& targets, nn::Segments segments) {
  const int64_t n = ids.size(0);
  TORCH_CHECK(targets.sizes() == ids.sizes(), "targets must be [", n, "], got ", targets.sizes());
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
  LatentDecoderBatch batch;
  batch.ids = ids;
  batch.targets = targets;
  if (config.mtp) {
    batch.next_ids = shifted(ids, segments, kNoNextId);
    batch.next_targets = shifted(targets, segments, nn::kIgnoredTarget);
  }
  batch.rotary = nn::rotary_table(config.rotary, positions_of(segments, ids.device()));
  batch.segments = std::move(segments);
  batch.result = std::make_shared<LatentDecoderResult>();
  batch.routers = std::make_shared<std::vector<RouterOutput>>(static_cast<size_t>(config.layers + 1));
  batch.selections = std::make_shared<std::vector<nn::Selection>>(static_cast<size_t>(config.layers + 1));
  return batch;
}

int64_t next_target_count(const LatentDecoderBatch& batch) {
  return batch.next_targets.defined() ? (batch.next_targets >= 0).sum().item<int64_t>() : 0;
}

LatentDecoderStage::LatentDecoderStage(LatentDecoderConfig config, uint32_t first_unit, uint32_t n_units,
                                       nn::ParallelContext parallel)
    : config_(std::move(config)), first_unit_(first_unit), parallel_(std::move(parallel)), units_(n_units) {}

void LatentDecoderStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const LatentDecoderConfig& c = config_;
  const int64_t number = first_unit_ + unit;
  constexpr auto kRms = nn::NormKind::kRms;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  if (number == 0) {
    u.table = binding.take_adaptable();
  } else if (number <= c.layers) {
    u.layer = take_layer(binding, c, c.is_sparse(number - 1));
  } else if (c.is_mtp(number)) {
    u.norm = binding.take_norm(kRms, c.norm_eps);
    u.table = binding.take_adaptable();
    u.token_norm = binding.take_norm(kRms, c.norm_eps);
    u.hidden_norm = binding.take_norm(kRms, c.norm_eps);
    u.join = binding.take_linear(false);
    u.layer = take_layer(binding, c, c.is_sparse(c.layers));
  } else {
    u.norm = binding.take_norm(kRms, c.norm_eps);
    u.head = binding.take_adaptable();
    if (c.mtp) {
      u.mtp_norm = binding.take_norm(kRms, c.norm_eps);
      binding.take_adaptable();  // the head again
    }
  }
  binding.done();
}

at::Tensor LatentDecoderStage::attention(const Layer& layer, int64_t number, const LatentDecoderBatch& batch,
                                         const at::Tensor& x, at::Tensor* divergence) const {
  const LatentDecoderConfig& c = config_;
  const nn::LatentShape& shape = c.attention;
  const int64_t n = x.size(0), h = shape.heads, first = c.query_rank > 0 ? c.query_rank : h * shape.head_size();
  const auto parts =
      nn::norm_linear(x, layer.norm, layer.down).split_with_sizes({first, shape.latent, shape.rotated}, 1);
  at::Tensor query = parts[0].contiguous(), query_latent;
  if (c.query_rank > 0) {
    query_latent = nn::norm(query, layer.query_norm);
    query = nn::linear(query_latent, layer.query);
  }
  query =
      nn::rotate_part(query.view({n, h, shape.head_size()}), shape.plain, nn::RotaryPairs::kNeighbours, batch.rotary)
          .flatten(1);
  const at::Tensor latent = nn::norm(parts[1].contiguous(), layer.latent_norm);
  const at::Tensor shared_key =
      nn::rotate_part(parts[2].unsqueeze(1), 0, nn::RotaryPairs::kNeighbours, batch.rotary).flatten(1);
  at::Tensor out;
  if (c.uses_index()) {
    const Indexer& indexer = layer.indexer;
    at::Tensor rows;
    {
      at::NoGradGuard no_grad;
      nn::NormStatistics statistics;
      rows = nn::normalize(x.detach(), layer.norm, &statistics);
    }
    nn::SparseInputs in{query, latent, shared_key, {}, {}, {}, /*gives_query_up=*/true};
    in.index_query = nn::rotate_part(nn::linear(query_latent.detach(), indexer.query).view({n, c.index.heads, -1}), 0,
                                     c.index_pairs, batch.rotary)
                         .flatten(1);
    in.index_key = nn::rotate_part(nn::norm(nn::linear(rows, indexer.key), indexer.key_norm).unsqueeze(1), 0,
                                   c.index_pairs, batch.rotary)
                       .flatten(1);
    in.index_weight = nn::wide_linear(rows, indexer.weights) * (1 / std::sqrt(static_cast<double>(c.index.heads)));
    nn::IndexShape index = c.index;
    if (c.warms_up()) index.top_k = 0;
    if (batch.outputs) (*batch.selections)[static_cast<size_t>(number)] = selections(in, index, batch.segments);
    const nn::IndexedAttention result =
        nn::sparse_attention(in, layer.kv_b, shape, index, batch.segments, c.learns_index());
    out = result.out;
    *divergence = result.divergence;
  } else {
    out = nn::latent_attention(query, nn::linear(latent, {layer.kv_b, {}}), shared_key, shape, batch.segments);
  }
  return nn::linear_add(out, layer.out, x);
}

at::Tensor LatentDecoderStage::feed_forward(const Layer& layer, int64_t number, const LatentDecoderBatch& batch,
                                            const at::Tensor& x, at::Tensor* balance) const {
  const LatentDecoderConfig& c = config_;
  if (!c.is_sparse(number)) return nn::feed_forward(x, layer.mlp);
  const at::Tensor rows = nn::norm(x, layer.mlp.norm);
  const nn::Routing routing = nn::route_in_groups(rows, layer.router, layer.router_bias.value, c.routing);
  if (layer.router_bias.trained() && at::GradMode::is_enabled())
    layer.router_bias.add_gradient(nn::excess_load(routing));
  if (batch.outputs) {
    const auto [expert, order] = routing.expert.sort(-1);
    (*batch.routers)[static_cast<size_t>(number)] = {expert, routing.weight.detach().gather(1, order)};
  }
  if (c.balance_weight > 0) {
    std::vector<double> lengths;
    for (size_t s = 0; s < batch.segments.count(); ++s)
      lengths.push_back(static_cast<double>(batch.segments.starts[s + 1] - batch.segments.starts[s]));
    const at::Tensor count = at::tensor(lengths, routing.probability.options());
    *balance = nn::balance_loss(nn::routing_statistics(routing, batch.segments), count) *
               (1.0 / static_cast<double>(c.routing.top_k));
  }
  const at::Tensor shared =
      nn::activate_linear(nn::linear(rows, layer.mlp.up), layer.mlp.activation, layer.mlp.down, x);
  return nn::experts(rows, routing, layer.experts, shared);
}

at::Tensor LatentDecoderStage::run_layer(const Layer& layer, int64_t number, const LatentDecoderBatch& batch,
                                         const at::Tensor& x, at::Tensor* sums) const {
  at::Tensor divergence, balance;
  const at::Tensor y = feed_forward(layer, number, batch, attention(layer, number, batch, x, &divergence), &balance);
  if (divergence.defined() || balance.defined()) {
    const at::Tensor none = at::zeros({static_cast<int64_t>(batch.segments.count())}, sums->options());
    *sums = *sums + at::stack({divergence.defined() ? divergence : none, balance.defined() ? balance : none}, 1);
  }
  return y;
}

nn::Tensors LatentDecoderStage::end(const Unit& unit, const LatentDecoderBatch& batch, const Flow& in) const {
  const LatentDecoderConfig& c = config_;
  LatentDecoderResult& result = *batch.result;
  // In the warm-up the token losses are told and not trained.
  const at::Tensor hidden = c.warms_up() ? in.hidden.detach() : in.hidden;
  const nn::TokenLoss loss =
      nn::token_loss(hidden, unit.norm, unit.head, batch.targets, {.gradient_scale = batch.gradient_scale});
  result.loss_weight = loss.count;
  result.token_sum = loss.sum.item<double>();
  at::Tensor total = c.warms_up() ? at::zeros({}, loss.sum.options()) : loss.sum;
  if (in.mtp.defined()) {
    const double weight = c.mtp_weight * batch.shares.mtp;
    nn::TokenLossConfig config;
    if (batch.gradient_scale) config.gradient_scale = *batch.gradient_scale * weight;
    const at::Tensor rows = c.warms_up() ? in.mtp.detach() : in.mtp;
    const nn::TokenLoss mtp = nn::token_loss(rows, unit.mtp_norm, unit.head, batch.next_targets, config);
    result.mtp_sum = mtp.sum.item<double>();
    result.mtp_count = mtp.count;
    if (!c.warms_up() && mtp.count > 0) total = total + mtp.sum * weight;
    if (batch.outputs) {
      result.mtp_logits = nn::all_logits(in.mtp, unit.mtp_norm, unit.head);
      result.mtp_token_loss = spread(mtp, batch.ids.size(0));
    }
  }
  const at::Tensor sums = in.sums.to(at::kDouble);
  if (c.learns_index()) {
    const at::Tensor divergence = sums.select(1, 0).sum();
    result.divergence_sum = divergence.item<double>();
    total = total + divergence * (c.divergence_weight * batch.shares.rows);
  }
  if (c.balance_weight > 0) {
    const at::Tensor balance = (sums.select(1, 1) * supervised_per_segment(batch)).sum();
    result.balance_sum = balance.item<double>();
    total = total + balance * c.balance_weight;
  }
  result.loss_sum = total.item<double>();
  if (batch.outputs) {
    result.logits = nn::all_logits(in.hidden, unit.norm, unit.head);
    result.token_loss = spread(loss, batch.ids.size(0));
  }
  return {total};
}

nn::Tensors LatentDecoderStage::run(const Unit& unit, int64_t number, const LatentDecoderBatch& batch,
                                    const nn::Tensors& in) const {
  const LatentDecoderConfig& c = config_;
  if (number == 0) {
    const at::Tensor hidden = nn::embed(batch.ids, unit.table, {}, {}, c.padding_id);
    return {hidden, at::Tensor(),
            at::zeros({static_cast<int64_t>(batch.segments.count()), 2}, hidden.options().dtype(nn::wide(hidden)))};
  }
  Flow flow{in[0], in[1], in[2]};
  if (number <= c.layers) {
    flow.hidden = run_layer(unit.layer, number - 1, batch, flow.hidden, &flow.sums);
  } else if (c.is_mtp(number)) {
    if (!c.trains_mtp) return in;
    const at::Tensor tokens = nn::norm(nn::embed(batch.next_ids, unit.table, {}, {}, c.padding_id), unit.token_norm);
    const at::Tensor rows = nn::norm(nn::norm(flow.hidden, unit.norm), unit.hidden_norm);
    const at::Tensor joined_rows = nn::linear(at::cat({tokens, rows}, 1), unit.join);
    flow.mtp = run_layer(unit.layer, c.layers, batch, joined_rows, &flow.sums);
  } else {
    return end(unit, batch, flow);
  }
  return {flow.hidden, flow.mtp, flow.sums};
}

std::vector<nn::Step> LatentDecoderStage::steps(std::shared_ptr<const LatentDecoderBatch> batch,
                                                const std::vector<nn::Recompute>& recompute) const {
  std::vector<nn::Step> steps;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    const Unit* unit = &units_[i];
    const int64_t number = first_unit_ + i;
    nn::Step step{i, recompute[i], unit->trains, 0, 0, {}};
    // The last unit's gradients may be made in forward (TokenLossConfig), and it keeps the supervised rows only.
    if (number + 1 == config_.n_units()) step.recompute = nn::Recompute::kNone;
    step.run = [this, unit, number, batch](const nn::Tensors& in) { return run(*unit, number, *batch, in); };
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace lf::components
