#include "optimizer/adamw.h"

#include <cmath>

#include "core/amount.h"
#include "core/error.h"
#include "core/log.h"
#include "optimizer/adamw_on_host.h"

namespace lf {
namespace {

std::unique_ptr<AdamWMemory> host_memory(const OptimizerInputs& inputs) {
  const auto elements = static_cast<int64_t>(inputs.master.size());
  if (inputs.gradients.size() != inputs.master.size() || inputs.threads < 1) {
    fail(Exit::kBug, "optimizer: {} gradients for {} values, {} threads", inputs.gradients.size(), elements,
         inputs.threads);
  }
  for (const OptimizedParameter& parameter : inputs.parameters) {
    if (parameter.offset < 0 || parameter.elements < 0 || parameter.offset + parameter.elements > elements)
      fail(Exit::kBug, "optimizer: {} lies outside of the flat buffer", parameter.name);
  }
  return std::make_unique<AdamWOnHost>(inputs.master, inputs.gradients, inputs.compute_bf16,
                                       ranges_of(inputs.parameters), inputs.threads);
}

}  // namespace

std::vector<ParameterRange> ranges_of(const std::vector<OptimizedParameter>& parameters) {
  std::vector<ParameterRange> ranges;
  for (const OptimizedParameter& parameter : parameters) ranges.push_back({parameter.offset, parameter.elements});
  return ranges;
}

AdamW::AdamW(OptimizerInputs inputs) : AdamW(inputs.settings, inputs.parameters, host_memory(inputs)) {}

AdamW::AdamW(OptimizerSection settings, std::vector<OptimizedParameter> parameters, std::unique_ptr<AdamWMemory> memory)
    : settings_(std::move(settings)),
      parameters_(std::move(parameters)),
      steps_(parameters_.size()),
      memory_(std::move(memory)) {}

StepStats AdamW::step(double learning_rate, double loss, std::span<const uint8_t> has_gradient) {
  for (const OptimizedParameter& parameter : parameters_) {
    if (parameter.unit >= has_gradient.size())
      fail(Exit::kBug, "optimizer: unit {} of {} is not known to the reducer", parameter.unit, parameter.name);
  }
  const std::vector<uint8_t> counts = counting(has_gradient);
  StepStats stats;
  stats.learning_rate = learning_rate;
  stats.grad_norm = memory_->gradient_norm(counts);
  if (!std::isfinite(stats.grad_norm) || !std::isfinite(loss)) {
    stats.skipped = true;
    refuse_or_count(loss, stats.grad_norm, counts);
    return stats;
  }
  skipped_in_row_ = 0;
  float clip = 1.0f;
  if (settings_.clip_norm > 0) {
    const double factor = settings_.clip_norm / (stats.grad_norm + 1e-6);
    stats.clipped = factor < 1.0;
    if (stats.clipped) clip = static_cast<float>(factor);
  }
  update(learning_rate, clip, has_gradient);
  return stats;
}

// Whose gradients enter the norm.
std::vector<uint8_t> AdamW::counting(std::span<const uint8_t> has_gradient) const {
  std::vector<uint8_t> counts;
  for (const OptimizedParameter& parameter : parameters_)
    counts.push_back(has_gradient[parameter.unit] != 0 && parameter.sign_step == 0 ? 1 : 0);
  return counts;
}

void AdamW::update(double learning_rate, float clip, std::span<const uint8_t> has_gradient) {
  std::vector<ParameterUpdate> updates(parameters_.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    const OptimizedParameter& parameter = parameters_[i];
    if (!has_gradient[parameter.unit]) continue;
    const auto t = static_cast<double>(++steps_[i]);
    const double rate = learning_rate * parameter.learning_rate_scale;
    const double decay =
        parameter.decay || settings_.decay_all ? parameter.weight_decay.value_or(settings_.weight_decay) : 0.0;
    updates[i] = {.wanted = true,
                  .sign_step = static_cast<float>(parameter.sign_step),
                  .scalars = {.clip = clip,
                              .keep = static_cast<float>(1.0 - rate * decay),
                              .one_minus_beta1 = static_cast<float>(1.0 - settings_.beta1),
                              .beta2 = static_cast<float>(settings_.beta2),
                              .one_minus_beta2 = static_cast<float>(1.0 - settings_.beta2),
                              .step_size = static_cast<float>(rate / (1.0 - std::pow(settings_.beta1, t))),
                              .root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(settings_.beta2, t))),
                              .epsilon = static_cast<float>(settings_.epsilon)}};
  }
  memory_->update(updates);
}

void AdamW::refuse_or_count(double loss, double norm, std::span<const uint8_t> counts) {
  ++skipped_in_row_;
  std::string where = "the loss";
  if (!std::isfinite(norm))
    if (const std::optional<size_t> first = memory_->first_not_finite(counts))
      where = "the gradient of " + parameters_[*first].name;
  const std::string what = fmt::format(
      "optimizer: expected finite numbers, got loss {} and gradient norm {} (first in {})", loss, norm, where);
  constexpr const char* kNextMove =
      "look at the data of this step, or lower optimizer.learning_rate (where precision.compute is \"bf16\", try "
      "\"fp32\")";
  if (settings_.on_nonfinite == "stop") {
    fail(Exit::kBadData, "{}; optimizer.on_nonfinite is \"stop\": {}", what, kNextMove);
  }
  if (skipped_in_row_ >= settings_.max_skipped) {
    fail(Exit::kBadData, "{}, the {} in a row, which optimizer.max_skipped = {} does not let pass; {}", what,
         counted(skipped_in_row_, "step"), settings_.max_skipped, kNextMove);
  }
  log::warning("{}; step skipped ({} in a row)", what, skipped_in_row_);
}

std::vector<OptimizerState> AdamW::state() {
  std::vector<OptimizerState> all;
  for (size_t i = 0; i < parameters_.size(); ++i)
    all.push_back({&parameters_[i], memory_->first_moment(i), memory_->second_moment(i), &steps_[i]});
  return all;
}

}  // namespace lf
