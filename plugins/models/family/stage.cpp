#include "family/stage.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "family/tensor_bridge.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

Stage::Stage(const Model& model, ModelState& state, const lf_host* host, const lf_stage_config& config)
    : spec_(model.spec()),
      state_(state),
      host_(host),
      parallel_(static_cast<const lf_parallel_host*>(host->get_extension(host, sdk::str(LF_PARALLEL_EXTENSION)))),
      component_(config.component),
      first_unit_(config.first_unit),
      n_units_(config.n_units),
      no_grad_((config.flags & LF_STAGE_NO_GRAD) != 0),
      dtype_(scalar_type(config.dtype)),
      device_uid_(config.device_uid),
      device_(device_of(config.device_uid)),
      recompute_(config.n_units, nn::Recompute::kNone) {
  if (config.tp != nullptr || config.cp != nullptr || config.ep != nullptr)
    throw sdk::Failure(LF_E_UNSUPPORTED, "this family offers no tp, cp or ep; use 1");
  if (!at::isFloatingType(dtype_)) throw sdk::Failure(LF_E_UNSUPPORTED, "this family computes in f32, bf16 or f64");
  if (component_ >= spec_.components.size())
    throw sdk::Failure(LF_E_INVALID, fmt::format("there is no component {}", component_));
  const ComponentSpec& component = spec_.components[component_];
  n_units_of_component_ = static_cast<uint32_t>(component.units);
  n_boundary_ = component.boundary.size();
  if (n_units_ == 0 || first_unit_ + n_units_ > n_units_of_component_)
    throw sdk::Failure(LF_E_INVALID, fmt::format("units {} to {} of {} were asked for", first_unit_,
                                                 first_unit_ + n_units_, n_units_of_component_));
  if (config.recompute != nullptr)
    for (uint32_t u = 0; u < n_units_; ++u) recompute_[u] = static_cast<nn::Recompute>(config.recompute[u]);
  state_.no_grad.resize(spec_.components.size(), false);
  state_.no_grad[component_] = no_grad_;

  const auto inside = [&](uint32_t unit) { return unit >= first_unit_ && unit < first_unit_ + n_units_; };
  for (size_t e = 0; e < spec_.edges.size(); ++e) {
    if (component_ == spec_.edges[e].to && inside(spec_.edges[e].to_unit)) edges_in_.push_back(e);
    if (component_ == spec_.edges[e].from && inside(spec_.edges[e].from_unit)) edges_out_.push_back(e);
  }
  blocks_ = model.blocks({component_, first_unit_, n_units_, dtype_, device_});
}

void Stage::bind(uint32_t unit, std::span<const lf_tensor> values, std::span<const lf_tensor> grads) {
  if (unit >= n_units_) throw sdk::Failure(LF_E_INVALID, fmt::format("the stage has no unit {}", unit));
  const std::vector<UnitAdapter> adapters = state_.adapters.of(component_, first_unit_ + unit);
  if (values.size() < 2 * adapters.size())
    throw sdk::Failure(LF_E_INVALID, fmt::format("unit {} has {} adapters, and is bound {} parameters in all", unit,
                                                 adapters.size(), values.size()));
  const size_t own = values.size() - 2 * adapters.size();
  std::vector<nn::Parameter> parameters;
  for (size_t i = 0; i < own; ++i) parameters.push_back(bound(unit, i, values[i], grads[i]));
  // The adapters of one map together.
  std::map<size_t, std::shared_ptr<nn::Adapters>> by_parameter;
  for (size_t k = 0; k < adapters.size(); ++k) {
    const UnitAdapter& adapter = adapters[k];
    const size_t a = own + 2 * k, b = a + 1;
    const nn::Parameter down = bound(unit, a, values[a], grads[a]), up = bound(unit, b, values[b], grads[b]);
    if (down.value.sizes() != at::IntArrayRef({adapter.experts * adapter.rank, adapter.in}) ||
        up.value.sizes() != at::IntArrayRef({adapter.rows, adapter.rank * adapter.experts}) || adapter.index >= own)
      throw sdk::Failure(LF_E_INVALID, fmt::format("adapter {} of unit {} is bound in other shapes", k, unit));
    std::shared_ptr<nn::Adapters>& of = by_parameter[adapter.index];
    if (of == nullptr) of = std::make_shared<nn::Adapters>(nn::Adapters{{}, draws_});
    of->each.push_back({down, up, adapter.first_row, adapter.scale, adapter.dropout, adapter.id});
  }
  for (auto& [index, of] : by_parameter) parameters[index].adapters = std::move(of);
  blocks_->bind(unit, std::move(parameters));
}

nn::Parameter Stage::bound(uint32_t unit, size_t index, const lf_tensor& value, const lf_tensor& gradient) const {
  nn::Parameter parameter{borrow(value), borrow(gradient)};
  if (!parameter.value.defined() || parameter.value.scalar_type() != dtype_)
    throw sdk::Failure(LF_E_INVALID, fmt::format("parameter {} of unit {} is not of the stage's dtype", index, unit));
  if (parameter.trained() && parameter.gradient.sizes() != parameter.value.sizes())
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("the gradient of parameter {} of unit {} has another shape", index, unit));
  return parameter;
}

void Stage::notify(uint32_t unit, nn::UnitEvent event, uint64_t micro_batch, lf_stream stream) {
  if (!LF_HAS(parallel_, unit)) return;
  lf_err err = sdk::make_err();
  sdk::check(parallel_->unit(host_, reinterpret_cast<lf_stage>(this), unit, static_cast<int32_t>(event), micro_batch,
                             stream, &err),
             err);
}

std::vector<size_t> Stage::leaving_order() const {
  std::vector<size_t> order(edges_out_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return spec_.edges[edges_out_[a]].from_unit < spec_.edges[edges_out_[b]].from_unit;
  });
  return order;
}

void Stage::forward(const lf_batch& batch, std::span<const lf_tensor> in, std::span<lf_tensor> out,
                    lf_step_out* step_out, lf_stream stream) {
  const bool outputs = has_loss() && (batch.flags & LF_BATCH_OUTPUTS) != 0;
  const size_t wanted = outputs ? spec_.outputs.size() : 0;
  if (in.size() != carried_in() + edges_in_.size() || out.size() != carried_out() + edges_out_.size() + wanted)
    throw sdk::Failure(LF_E_INVALID, fmt::format("forward got {} tensors in and {} out, the stage has {} and {}",
                                                 in.size(), out.size(), carried_in() + edges_in_.size(),
                                                 carried_out() + edges_out_.size() + wanted));
  if (open_.contains(batch.micro_batch))
    throw sdk::Failure(LF_E_INVALID, fmt::format("micro-batch {} is open already", batch.micro_batch));

  Open open;
  if (const lf_batch* given = &batch; LF_HAS(given, draw_key)) open.draw_key = batch.draw_key;
  draws_->key = open.draw_key;
  Opened opened = blocks_->open(batch, recompute_);
  open.chain = std::make_unique<nn::Chain>(
      std::move(opened.steps),
      [this, micro_batch = batch.micro_batch](uint32_t unit, nn::UnitEvent event) {
        notify(unit, event, micro_batch, stream_);
      },
      !no_grad_);
  nn::Tensors tensors;
  std::vector<bool> needs;
  for (size_t i = 0; i < in.size(); ++i) {
    tensors.push_back(borrow(in[i]));
    // What a frozen component made on this rank needs no gradient; of other ranks' stages nothing is known.
    needs.push_back(i < carried_in() || !state_.no_grad[spec_.edges[edges_in_[i - carried_in()]].from]);
  }
  stream_ = stream;
  const nn::Tensors made = open.chain->forward(tensors, needs);
  open.n_out = made.size();

  // Edges leave the chain by unit; the host wants them in table order.
  for (size_t i = 0; i < carried_out(); ++i) out[i] = give(made[i], device_uid_);
  const std::vector<size_t> order = leaving_order();
  for (size_t i = 0; i < order.size(); ++i) out[carried_out() + order[i]] = give(made[carried_out() + i], device_uid_);
  if (has_loss()) {
    const StepResult result = opened.result();
    for (size_t i = 0; i < wanted; ++i) out[out.size() - wanted + i] = give(result.outputs.at(i), device_uid_);
    if (step_out != nullptr) {
      step_out->loss_sum = result.loss_sum;
      step_out->loss_weight = result.loss_weight;
      std::copy(result.aux.begin(), result.aux.end(), step_out->aux);
    }
  }
  open_.emplace(batch.micro_batch, std::move(open));
}

void Stage::backward(uint64_t micro_batch, int32_t what, std::span<const lf_tensor> gout, std::span<lf_tensor> gin,
                     double loss_scale, lf_stream stream) {
  if (what != LF_BACKWARD_BOTH) throw sdk::Failure(LF_E_UNSUPPORTED, "this family does not split its backward");
  const auto found = open_.find(micro_batch);
  if (found == open_.end()) throw sdk::Failure(LF_E_INVALID, fmt::format("micro-batch {} is not open", micro_batch));
  if (gout.size() < carried_out() + edges_out_.size() || gin.size() != carried_in() + edges_in_.size())
    throw sdk::Failure(LF_E_INVALID, "backward got another number of gradients than the stage has tensors");
  const Open open = std::move(found->second);
  open_.erase(found);

  nn::Tensors seeds(open.n_out);
  if (has_loss()) {
    seeds[0] = at::scalar_tensor(loss_scale, at::TensorOptions(at::kDouble).device(device_));
  } else {
    for (size_t i = 0; i < carried_out(); ++i) seeds[i] = borrow(gout[i]);
    const std::vector<size_t> order = leaving_order();
    for (size_t i = 0; i < order.size(); ++i) seeds[carried_out() + i] = borrow(gout[carried_out() + order[i]]);
  }
  stream_ = stream;
  draws_->key = open.draw_key;
  const nn::Tensors made = open.chain->backward(seeds);
  for (size_t i = 0; i < gin.size(); ++i) gin[i] = give(made[i], device_uid_);
}

}  // namespace lf::family
