#include "optimizer/adamw.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/log.h"
#include "core/parallel.h"
#include "optimizer/adamw_kernel.h"

namespace lf {
namespace {

constexpr int64_t kBlock = 1 << 16;  // elements: 1.9 MB of traffic, so threads share the work evenly

}  // namespace

AdamW::AdamW(OptimizerInputs inputs)
    : inputs_(std::move(inputs)),
      m_(static_cast<int64_t>(inputs_.master.size())),
      v_(static_cast<int64_t>(inputs_.master.size())),
      steps_(inputs_.parameters.size()) {
  if (inputs_.gradients.size() != inputs_.master.size() || inputs_.threads < 1) {
    fail(Exit::kBug, "optimizer: {} gradients for {} values, {} threads", inputs_.gradients.size(),
         inputs_.master.size(), inputs_.threads);
  }
  for (uint32_t i = 0; i < inputs_.parameters.size(); ++i) {
    const OptimizedParameter& parameter = inputs_.parameters[i];
    if (parameter.offset < 0 || parameter.elements < 0 ||
        parameter.offset + parameter.elements > static_cast<int64_t>(inputs_.master.size())) {
      fail(Exit::kBug, "optimizer: {} lies outside of the flat buffer", parameter.name);
    }
    for (int64_t begin = 0; begin < parameter.elements; begin += kBlock) {
      blocks_.push_back({i, parameter.offset + begin, parameter.offset + std::min(begin + kBlock, parameter.elements)});
    }
  }
  square_sums_.resize(blocks_.size());
}

StepStats AdamW::step(double learning_rate, double loss, std::span<const uint8_t> has_gradient) {
  for (const OptimizedParameter& parameter : inputs_.parameters) {
    if (parameter.unit >= has_gradient.size())
      fail(Exit::kBug, "optimizer: unit {} of {} is not known to the reducer", parameter.unit, parameter.name);
  }
  StepStats stats;
  stats.learning_rate = learning_rate;
  stats.grad_norm = gradient_norm(has_gradient);
  if (!std::isfinite(stats.grad_norm) || !std::isfinite(loss)) {
    stats.skipped = true;
    refuse_or_count(loss, stats.grad_norm);
    return stats;
  }
  skipped_in_row_ = 0;
  float clip = 1.0f;
  if (inputs_.settings.clip_norm > 0) {
    const double factor = inputs_.settings.clip_norm / (stats.grad_norm + 1e-6);
    stats.clipped = factor < 1.0;
    if (stats.clipped) clip = static_cast<float>(factor);
  }
  update(learning_rate, clip, has_gradient);
  return stats;
}

double AdamW::gradient_norm(std::span<const uint8_t> has_gradient) {
  parallel_pieces(inputs_.threads, static_cast<int64_t>(blocks_.size()), [&](int64_t i) {
    const auto b = static_cast<size_t>(i);
    const Block& block = blocks_[b];
    const OptimizedParameter& parameter = inputs_.parameters[block.parameter];
    const bool counts = has_gradient[parameter.unit] != 0 && parameter.sign_step == 0;
    square_sums_[b] = counts ? sum_of_squares(inputs_.gradients.data() + block.begin, block.end - block.begin) : 0.0;
  });
  double sum = 0;
  for (double square_sum : square_sums_) sum += square_sum;
  return std::sqrt(sum);
}

void AdamW::update(double learning_rate, float clip, std::span<const uint8_t> has_gradient) {
  const OptimizerSection& settings = inputs_.settings;
  std::vector<AdamWScalars> scalars(inputs_.parameters.size());
  for (size_t i = 0; i < scalars.size(); ++i) {
    const OptimizedParameter& parameter = inputs_.parameters[i];
    if (!has_gradient[parameter.unit]) continue;
    const auto t = static_cast<double>(++steps_[i]);
    const double rate = learning_rate * parameter.learning_rate_scale;
    const double decay =
        parameter.decay || settings.decay_all ? parameter.weight_decay.value_or(settings.weight_decay) : 0.0;
    scalars[i] = {.clip = clip,
                  .keep = static_cast<float>(1.0 - rate * decay),
                  .one_minus_beta1 = static_cast<float>(1.0 - settings.beta1),
                  .beta2 = static_cast<float>(settings.beta2),
                  .one_minus_beta2 = static_cast<float>(1.0 - settings.beta2),
                  .step_size = static_cast<float>(rate / (1.0 - std::pow(settings.beta1, t))),
                  .root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(settings.beta2, t))),
                  .epsilon = static_cast<float>(settings.epsilon)};
  }
  parallel_pieces(inputs_.threads, static_cast<int64_t>(blocks_.size()), [&](int64_t i) {
    const Block& block = blocks_[static_cast<size_t>(i)];
    const OptimizedParameter& parameter = inputs_.parameters[block.parameter];
    if (!has_gradient[parameter.unit]) return;
    if (parameter.sign_step > 0)
      return sign_update(inputs_.master.data() + block.begin, inputs_.gradients.data() + block.begin,
                         inputs_.compute_bf16 != nullptr ? inputs_.compute_bf16 + block.begin : nullptr,
                         block.end - block.begin, static_cast<float>(parameter.sign_step));
    adamw_update({.master = inputs_.master.data() + block.begin,
                  .m = m_.data() + block.begin,
                  .v = v_.data() + block.begin,
                  .gradient = inputs_.gradients.data() + block.begin,
                  .compute = inputs_.compute_bf16 != nullptr ? inputs_.compute_bf16 + block.begin : nullptr,
                  .n = block.end - block.begin},
                 scalars[block.parameter]);
  });
}

void AdamW::refuse_or_count(double loss, double norm) {
  ++skipped_in_row_;
  std::string where = "the loss";
  for (size_t b = 0; b < blocks_.size(); ++b) {
    if (std::isfinite(square_sums_[b])) continue;
    where = "the gradient of " + inputs_.parameters[blocks_[b].parameter].name;
    break;
  }
  const std::string what = fmt::format(
      "optimizer: expected finite numbers, got loss {} and gradient norm {} (first in {})", loss, norm, where);
  constexpr const char* kNextMove = "look at the data of this step, lower optimizer.learning_rate, or compute in fp32";
  if (inputs_.settings.on_nonfinite == "stop") {
    fail(Exit::kBadData, "{}; optimizer.on_nonfinite is \"stop\": {}", what, kNextMove);
  }
  if (skipped_in_row_ > inputs_.settings.max_skipped) {
    fail(Exit::kBadData, "{}, and this for {} steps in a row, more than optimizer.max_skipped; {}", what,
         skipped_in_row_, kNextMove);
  }
  log::warning("{}; step skipped ({} in a row)", what, skipped_in_row_);
}

std::vector<OptimizerState> AdamW::state() {
  std::vector<OptimizerState> all;
  for (size_t i = 0; i < inputs_.parameters.size(); ++i) {
    const OptimizedParameter& parameter = inputs_.parameters[i];
    const auto at = static_cast<size_t>(parameter.offset), n = static_cast<size_t>(parameter.elements);
    all.push_back({&parameter, m_.values().subspan(at, n), v_.values().subspan(at, n), &steps_[i]});
  }
  return all;
}

}  // namespace lf
