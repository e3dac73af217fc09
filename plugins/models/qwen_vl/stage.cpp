#include "qwen_vl/stage.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"
#include "lf/plugin_sdk/tensor.hpp"
#include "qwen_vl/tensor_bridge.h"

namespace lf::qwen_vl {
namespace {

at::Tensor column(const lf_batch& batch, std::string_view name, at::ScalarType type, int64_t ndim) {
  for (uint32_t i = 0; i < batch.n_columns; ++i) {
    if (sdk::view(batch.columns[i].name) != name) continue;
    at::Tensor tensor = borrow(batch.columns[i].tensor);
    if (!tensor.defined()) return {};
    if (tensor.scalar_type() != type || tensor.dim() != ndim)
      throw sdk::Failure(LF_E_INVALID,
                         fmt::format("qwen_vl: column \"{}\": expected {} with {} axes, got {} with {}", name,
                                     at::toString(type), ndim, at::toString(tensor.scalar_type()), tensor.dim()));
    return tensor;
  }
  return {};
}

at::Tensor needed(const lf_batch& batch, std::string_view name, at::ScalarType type, int64_t ndim) {
  at::Tensor tensor = column(batch, name, type, ndim);
  if (!tensor.defined())
    throw sdk::Failure(LF_E_INVALID,
                       fmt::format("qwen_vl: the micro-batch has no column \"{}\"; collate makes it", name));
  return tensor;
}

std::vector<int64_t> values(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.contiguous();
  return {plain.const_data_ptr<int64_t>(), plain.const_data_ptr<int64_t>() + plain.numel()};
}

}  // namespace

Stage::Stage(const QwenVl& model, ModelState& state, const lf_host* host, const lf_stage_config& config)
    : model_(model),
      state_(state),
      host_(host),
      parallel_(static_cast<const lf_parallel_host*>(host->get_extension(host, sdk::str(LF_PARALLEL_EXTENSION)))),
      component_(config.component),
      first_unit_(config.first_unit),
      n_units_(config.n_units),
      no_grad_((config.flags & LF_STAGE_NO_GRAD) != 0),
      dtype_(scalar_type(config.dtype)),
      recompute_(config.n_units, nn::Recompute::kNone) {
  if (config.tp != nullptr || config.cp != nullptr || config.ep != nullptr)
    throw sdk::Failure(LF_E_UNSUPPORTED, "qwen_vl offers no tp, cp or ep; use 1");
  if (config.device_uid != 0) throw sdk::Failure(LF_E_UNSUPPORTED, "qwen_vl runs on host memory (device \"cpu\") only");
  if (!at::isFloatingType(dtype_)) throw sdk::Failure(LF_E_UNSUPPORTED, "qwen_vl computes in f32, bf16 or f64");
  if (component_ > kLanguage) throw sdk::Failure(LF_E_INVALID, fmt::format("qwen_vl has no component {}", component_));
  const int64_t all = component_ == kVision ? model.vision.n_units() : model.language.n_units();
  if (n_units_ == 0 || first_unit_ + n_units_ > all)
    throw sdk::Failure(LF_E_INVALID, fmt::format("qwen_vl: units {} to {} of {} were asked for", first_unit_,
                                                 first_unit_ + n_units_, all));
  if (config.recompute != nullptr)
    for (uint32_t u = 0; u < n_units_; ++u) recompute_[u] = static_cast<nn::Recompute>(config.recompute[u]);
  state_.no_grad[component_] = no_grad_;

  const auto inside = [&](uint32_t unit) { return unit >= first_unit_ && unit < first_unit_ + n_units_; };
  for (size_t e = 0; e < model.edges.size(); ++e) {
    if (component_ == kLanguage && inside(model.edges[e].to_unit)) edges_in_.push_back(e);
    if (component_ == kVision && inside(model.edges[e].from_unit)) edges_out_.push_back(e);
  }
  if (component_ == kVision) {
    blocks_.emplace<components::VisionStage>(model.vision, first_unit_, n_units_, nn::ParallelContext{});
  } else {
    blocks_.emplace<components::LanguageStage>(model.language, first_unit_, n_units_, nn::ParallelContext{});
  }
}

bool Stage::ends() const {
  return first_unit_ + n_units_ ==
         static_cast<uint32_t>(component_ == kVision ? model_.vision.n_units() : model_.language.n_units());
}

size_t Stage::n_boundary() const { return component_ == kLanguage && model_.language.carries_statistics() ? 2 : 1; }

void Stage::bind(uint32_t unit, std::span<const lf_tensor> values, std::span<const lf_tensor> grads) {
  if (unit >= n_units_) throw sdk::Failure(LF_E_INVALID, fmt::format("qwen_vl: the stage has no unit {}", unit));
  std::vector<nn::Parameter> parameters;
  for (size_t i = 0; i < values.size(); ++i) {
    nn::Parameter parameter{borrow(values[i]), borrow(grads[i])};
    if (!parameter.value.defined() || parameter.value.scalar_type() != dtype_)
      throw sdk::Failure(LF_E_INVALID,
                         fmt::format("qwen_vl: parameter {} of unit {} is not of the stage's dtype", i, unit));
    if (parameter.trained() && parameter.gradient.sizes() != parameter.value.sizes())
      throw sdk::Failure(LF_E_INVALID,
                         fmt::format("qwen_vl: the gradient of parameter {} of unit {} has another shape", i, unit));
    parameters.push_back(std::move(parameter));
  }
  if (auto* vision = std::get_if<components::VisionStage>(&blocks_)) vision->bind(unit, std::move(parameters));
  if (auto* language = std::get_if<components::LanguageStage>(&blocks_)) language->bind(unit, std::move(parameters));
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
    return model_.edges[edges_out_[a]].from_unit < model_.edges[edges_out_[b]].from_unit;
  });
  return order;
}

std::vector<nn::Step> Stage::vision_steps(const lf_batch& batch) const {
  const std::vector<int64_t> numbers = values(needed(batch, "grid_thw", at::kLong, 2));
  std::vector<components::PatchGrid> grids;
  for (size_t i = 0; i + 2 < numbers.size(); i += 3) grids.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
  const at::Tensor pixels = begins() ? needed(batch, "pixel_values", at::kFloat, 2) : at::Tensor();
  auto made = std::make_shared<components::VisionBatch>(
      components::vision_batch(model_.vision, grids, pixels, at::TensorOptions().dtype(dtype_)));
  return std::get<components::VisionStage>(blocks_).steps(std::move(made), recompute_);
}

std::vector<nn::Step> Stage::language_steps(const lf_batch& batch, Open& open) const {
  const at::Tensor places = column(batch, "visual_rows", at::kLong, 1);
  auto made = std::make_shared<components::DecoderBatch>(components::decoder_batch(
      model_.language, needed(batch, "input_ids", at::kLong, 1), needed(batch, "targets", at::kLong, 1),
      needed(batch, "position_ids", at::kLong, 2), {values(needed(batch, "segment_starts", at::kLong, 1))},
      places.defined() && places.size(0) > 0 ? places : at::Tensor()));
  made->outputs = (batch.flags & LF_BATCH_OUTPUTS) != 0;
  const lf_batch* given = &batch;
  if (LF_HAS(given, loss_scale)) made->gradient_scale = batch.loss_scale;
  open.result = made->result;
  return std::get<components::LanguageStage>(blocks_).steps(std::move(made), recompute_);
}

void Stage::forward(const lf_batch& batch, std::span<const lf_tensor> in, std::span<lf_tensor> out,
                    lf_step_out* step_out, lf_stream stream) {
  const bool last = component_ == kLanguage && ends();
  const bool outputs = last && (batch.flags & LF_BATCH_OUTPUTS) != 0;
  const size_t carried_in = begins() ? 0 : n_boundary(), carried_out = ends() ? 0 : n_boundary();
  if (in.size() != carried_in + edges_in_.size() || out.size() != carried_out + edges_out_.size() + (outputs ? 2 : 0))
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("qwen_vl: forward got {} tensors in and {} out, the stage has {} and {}", in.size(), out.size(),
                    carried_in + edges_in_.size(), carried_out + edges_out_.size() + (outputs ? 2 : 0)));
  if (open_.contains(batch.micro_batch))
    throw sdk::Failure(LF_E_INVALID, fmt::format("qwen_vl: micro-batch {} is open already", batch.micro_batch));

  Open open;
  std::vector<nn::Step> steps = component_ == kVision ? vision_steps(batch) : language_steps(batch, open);
  open.chain = std::make_unique<nn::Chain>(
      std::move(steps),
      [this, micro_batch = batch.micro_batch](uint32_t unit, nn::UnitEvent event) {
        notify(unit, event, micro_batch, stream_);
      },
      !no_grad_);
  nn::Tensors tensors;
  std::vector<bool> needs;
  for (size_t i = 0; i < in.size(); ++i) {
    tensors.push_back(borrow(in[i]));
    // What a frozen component made on this rank needs no gradient; of other ranks' stages nothing is known.
    needs.push_back(i < carried_in || !state_.no_grad[kVision]);
  }
  stream_ = stream;
  const nn::Tensors made = open.chain->forward(tensors, needs);
  open.n_out = made.size();

  // Edges leave the chain by unit; the host wants them in table order, where "visual" is first.
  for (size_t i = 0; i < carried_out; ++i) out[i] = give(made[i]);
  const std::vector<size_t> order = leaving_order();
  for (size_t i = 0; i < order.size(); ++i) out[carried_out + order[i]] = give(made[carried_out + i]);
  if (outputs) {
    out[out.size() - 2] = give(open.result->logits);
    out[out.size() - 1] = give(open.result->token_loss.unsqueeze(1));
  }
  if (last && step_out != nullptr) {
    step_out->loss_sum = open.result->loss_sum;
    step_out->loss_weight = static_cast<double>(open.result->loss_weight);
    step_out->aux[0] = open.result->balance_sum;
  }
  open_.emplace(batch.micro_batch, std::move(open));
}

void Stage::backward(uint64_t micro_batch, int32_t what, std::span<const lf_tensor> gout, std::span<lf_tensor> gin,
                     double loss_scale, lf_stream stream) {
  if (what != LF_BACKWARD_BOTH) throw sdk::Failure(LF_E_UNSUPPORTED, "qwen_vl does not split its backward");
  const auto found = open_.find(micro_batch);
  if (found == open_.end())
    throw sdk::Failure(LF_E_INVALID, fmt::format("qwen_vl: micro-batch {} is not open", micro_batch));
  const size_t carried_in = begins() ? 0 : n_boundary(), carried_out = ends() ? 0 : n_boundary();
  if (gout.size() < carried_out + edges_out_.size() || gin.size() != carried_in + edges_in_.size())
    throw sdk::Failure(LF_E_INVALID, "qwen_vl: backward got another number of gradients than the stage has tensors");
  const Open open = std::move(found->second);
  open_.erase(found);

  nn::Tensors seeds(open.n_out);
  if (component_ == kLanguage && ends()) {
    seeds[0] = at::scalar_tensor(loss_scale, at::kDouble);
  } else {
    for (size_t i = 0; i < carried_out; ++i) seeds[i] = borrow(gout[i]);
    const std::vector<size_t> order = leaving_order();
    for (size_t i = 0; i < order.size(); ++i) seeds[carried_out + i] = borrow(gout[carried_out + order[i]]);
  }
  stream_ = stream;
  const nn::Tensors made = open.chain->backward(seeds);
  for (size_t i = 0; i < gin.size(); ++i) gin[i] = give(made[i]);
}

}  // namespace lf::qwen_vl
