#include "components/action_expert.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "components/binding.h"
#include "components/gemma_layer.h"
#include "components/merger.h"
#include "nn/flow_loss.h"
#include "nn/timestep.h"

namespace lf::components {
namespace {

// Places in a norm's modulation row.
enum : int64_t { kScale = 0, kShift, kGate, kVectors };

// Weights of modulations start at 0: every layer then begins as the identity.
void add_modulation(ParameterTable& table, const std::string& norm, uint32_t unit, int64_t width) {
  table.push_back(linear_map(whole(norm + ".dense.weight", unit, {kVectors * width, width}, Init::kZeros)));
  table.back().decays = true;
  table.push_back(whole(norm + ".dense.bias", unit, {kVectors * width}, Init::kZeros));
}

nn::Modulation modulation_of(const at::Tensor& vectors, double eps) {
  return {vectors, kShift, kScale, eps, nn::NormKind::kRms};
}

}  // namespace

ParameterTable parameter_table(const ActionExpertConfig& c) {
  const GemmaLayerShape shape{c.width, c.intermediate, c.heads, c.kv_heads, c.head_size, c.deviation};
  ParameterTable table;
  add_linear(table, c.outer + "action_in_proj", 0, c.width, c.columns, c.deviation);
  add_linear(table, c.outer + "time_mlp_in", 0, c.width, c.width, c.deviation);
  add_linear(table, c.outer + "time_mlp_out", 0, c.width, c.width, c.deviation);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const auto unit = static_cast<uint32_t>(layer + 1);
    const std::string block = fmt::format("{}model.layers.{}.", c.prefix, layer);
    add_modulation(table, block + "input_layernorm", unit, c.width);
    table.push_back(gemma_qkv(shape, block, unit));
    table.push_back(gemma_out(shape, block, unit));
    add_modulation(table, block + "post_attention_layernorm", unit, c.width);
    table.push_back(gemma_gate_up(shape, block, unit));
    table.push_back(gemma_down(shape, block, unit));
  }
  const auto last = static_cast<uint32_t>(c.layers + 1);
  add_modulation(table, c.prefix + "model.norm", last, c.width);
  add_linear(table, c.outer + "action_out_proj", last, c.columns, c.width, c.deviation);
  if (c.vocabulary > 0) {
    table.push_back(whole(c.prefix + "lm_head.weight", last, {c.vocabulary, c.width}, Init::kNormal, c.deviation));
    table.back().dead = true;
  }
  return table;
}

ActionExpertStage::ActionExpertStage(ActionExpertConfig config, uint32_t first_unit, uint32_t n_units)
    : config_(std::move(config)), first_unit_(first_unit), units_(n_units) {}

void ActionExpertStage::bind(uint32_t unit, std::vector<nn::Parameter> parameters) {
  const ActionExpertConfig& c = config_;
  const int64_t number = first_unit_ + unit;
  Binding binding(parameters);
  Unit& u = units_.at(unit);
  u = {};
  u.trains = any_trained(parameters);
  if (number == 0) {
    u.actions = binding.take_linear(true);
    u.time_in = binding.take_linear(true);
    u.time_out = binding.take_linear(true);
  } else if (number <= c.layers) {
    u.attention_modulation = binding.take_linear(true);
    u.qkv = binding.take_linear(false);
    u.out = binding.take_linear(false);
    u.mlp_modulation = binding.take_linear(true);
    u.up = binding.take_linear(false);
    u.down = binding.take_linear(false);
  } else {
    u.modulation = binding.take_linear(true);
    u.velocity = binding.take_linear(true);
    if (c.vocabulary > 0) binding.take();
  }
  binding.done();
}

nn::Tensors ActionExpertStage::begin(const Unit& unit, const ActionBatch& batch, const at::Tensor& actions,
                                     const at::Tensor& time) const {
  const at::Tensor embedding =
      nn::period_embedding(time, config_.width, config_.min_period, config_.max_period).to(batch.compute);
  const at::Tensor conditioning =
      at::silu(nn::activate_linear(nn::linear(embedding, unit.time_in), nn::Activation::kSilu, unit.time_out));
  return {nn::linear(actions.to(batch.compute), unit.actions), conditioning};
}

at::Tensor ActionExpertStage::layer(const Unit& unit, const ActionBatch& batch, const at::Tensor& x,
                                    const at::Tensor& conditioning, const at::Tensor& memory) const {
  const nn::AttentionShape shape{.heads = config_.heads, .kv_heads = config_.kv_heads, .head_size = config_.head_size};
  const at::Tensor first = nn::linear(conditioning, unit.attention_modulation);
  const at::Tensor qkv = nn::modulated_linears(x, modulation_of(first, config_.norm_eps), batch.runs, {unit.qkv})[0];
  const at::Tensor attended = nn::memory_attention(qkv, memory, shape, batch.layout);
  const at::Tensor between = nn::linear_gated(attended, unit.out, first, kGate, batch.runs, x);
  const at::Tensor second = nn::linear(conditioning, unit.mlp_modulation);
  const at::Tensor up =
      nn::modulated_linears(between, modulation_of(second, config_.norm_eps), batch.runs, {unit.up})[0];
  return nn::activate_linear_gated(up, nn::Activation::kGatedGeluTanh, {}, unit.down, second, kGate, batch.runs,
                                   between);
}

at::Tensor ActionExpertStage::velocity(const Unit& unit, const ActionBatch& batch, const nn::Tensors& in) const {
  const at::Tensor vectors = nn::linear(in[1], unit.modulation);
  return nn::modulated_linears(in[0], modulation_of(vectors, config_.norm_eps), batch.runs, {unit.velocity})[0];
}

nn::Tensors ActionExpertStage::end(const Unit& unit, const ActionBatch& batch, const nn::Tensors& in) const {
  const at::Tensor made = velocity(unit, batch, in);
  const at::Tensor in_row = batch.counted.sum(1);
  const nn::FlowLoss loss = nn::flow_loss(made * batch.counted, batch.target * batch.counted,
                                          (in_row > 0).to(in_row.scalar_type()) / in_row.clamp_min(1));
  ActionResult& result = *batch.result;
  result.loss_sum = loss.sum.item<double>();
  result.loss_weight = (in_row > 0).sum().item<double>();
  if (batch.outputs) {
    result.velocity = made.detach().to(batch.target.scalar_type());
    result.element_loss = (result.velocity - batch.target).square();
  }
  return {loss.sum};
}

// Forward Euler: x <- x - v / n at times 1, 1 - 1/n, ... (lerobot's PI05Pytorch.sample_actions). The prefix's keys and
// values are those of the one pass that made them.
at::Tensor ActionExpertStage::sample(const ActionBatch& batch, const nn::Tensors& memories) const {
  at::NoGradGuard no_grad;
  const auto n = static_cast<double>(batch.sampling_steps);
  at::Tensor x = batch.noise;
  for (int64_t step = 0; step < batch.sampling_steps; ++step) {
    const at::Tensor time = at::full_like(batch.time, 1.0 - static_cast<double>(step) / n);
    nn::Tensors rows = begin(units_.front(), batch, x, time);
    for (int64_t k = 0; k < config_.layers; ++k)
      rows[0] = layer(units_[static_cast<size_t>(k + 1)], batch, rows[0], rows[1], memories[static_cast<size_t>(k)]);
    x = x - velocity(units_.back(), batch, rows).to(x.scalar_type()) / n;
  }
  return x;
}

std::vector<nn::Step> ActionExpertStage::steps(std::shared_ptr<const ActionBatch> batch,
                                               const std::vector<nn::Recompute>& recompute) const {
  const bool samples = batch->sampling_steps > 0;
  TORCH_CHECK(!samples || static_cast<int64_t>(units_.size()) == config_.n_units(),
              "actions are sampled where one stage has all ", config_.n_units(), " units, this one has ",
              units_.size());
  auto memories = std::make_shared<nn::Tensors>(static_cast<size_t>(samples ? config_.layers : 0));
  std::vector<nn::Step> steps;
  for (uint32_t i = 0; i < units_.size(); ++i) {
    const Unit* unit = &units_[i];
    const int64_t number = first_unit_ + i;
    nn::Step step{i, recompute[i], unit->trains, 0, 0, {}};
    if (number == 0) {
      step.run = [this, unit, batch](const nn::Tensors&) { return begin(*unit, *batch, batch->actions, batch->time); };
    } else if (number <= config_.layers) {
      step.edges_in = 1;
      step.run = [this, unit, number, samples, batch, memories](const nn::Tensors& in) -> nn::Tensors {
        const at::Tensor& memory = in[2];
        if (samples && memory.defined()) (*memories)[static_cast<size_t>(number - 1)] = memory.detach();
        return {layer(*unit, *batch, in[0], in[1], memory), in[1]};
      };
    } else {
      step.recompute = nn::Recompute::kNone;  // it keeps little
      step.run = [this, unit, samples, batch, memories](const nn::Tensors& in) {
        nn::Tensors out = end(*unit, *batch, in);
        if (samples) batch->result->sampled = sample(*batch, *memories);
        return out;
      };
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace lf::components
