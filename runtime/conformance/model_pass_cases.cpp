// What a model must hold when it runs: losses, gradients, stages, recomputation.
#include <algorithm>
#include <cmath>
#include <random>

#include "conformance/family.h"
#include "conformance/model_case_lists.h"
#include "lf/plugin_sdk/tensor.hpp"

namespace lf::kit {
namespace {

// What is added to its gradient is not one.
bool counts(const Parameter& p) { return p.description.sign_step > 0; }

constexpr double kLoose = 1e-4;  // f32 sums in another order, or onto what is there already

std::vector<std::vector<float>> gradients(Family& family) {
  std::vector<std::vector<float>> all;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) all.push_back(p.gradient);
  return all;
}

// Relative to each tensor's largest element, with a floor for what cancels to nearly nothing.
void expect_close(Family& family, const std::vector<std::vector<float>>& got,
                  const std::vector<std::vector<float>>& wanted, double tolerance, const char* what) {
  double overall = 0;
  for (const auto& tensor : wanted)
    for (const float value : tensor) overall = std::max(overall, std::abs(static_cast<double>(value)));
  size_t at = 0;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      double largest = 1e-3 * overall, apart = 0;
      for (size_t i = 0; i < wanted[at].size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(wanted[at][i])));
        apart = std::max(apart, std::abs(static_cast<double>(wanted[at][i]) - got[at][i]));
      }
      expect(apart <= tolerance * largest, "{}: the gradient of {} differs by {:.2e} of its largest element", what,
             p.name, largest > 0 ? apart / largest : 0.0);
      ++at;
    }
}

void expect_near(double got, double wanted, double tolerance, const char* what) {
  expect(std::abs(got - wanted) <= tolerance * std::max(1.0, std::abs(wanted)), "{}: expected {}, got {}", what, wanted,
         got);
}

void loss_is_a_sum_with_its_count(Bench& b) {
  Family family(b);
  family.build();
  const StepSums sums = family.run(family.collate(family.the_case.samples), 0);
  expect(std::isfinite(sums.loss) && sums.loss > 0, "loss_sum: expected a positive number, got {}", sums.loss);
  double weight = 0;
  for (const std::string& json : family.the_case.samples) weight += family.features(json).numbers.back()[1];
  expect(sums.weight == weight, "loss_weight: expected {} as features state it, got {}", weight, sums.weight);
}

void the_same_batch_gives_the_same_bits(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums first = family.run(columns, 1);
  const auto wanted = gradients(family);
  family.zero_gradients();
  const StepSums second = family.run(columns, 1);
  expect(first.loss == second.loss, "loss_sum: expected the same bits twice, got {} and {}", first.loss, second.loss);
  expect(wanted == gradients(family), "gradients: expected the same bits twice, got others");
}

void forward_alone_changes_nothing(Bench& b) {
  Family family(b);
  family.build();
  std::vector<std::vector<float>> before;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) before.push_back(p.values);
  const Columns columns = family.collate(family.the_case.samples);
  family.run(columns, 0);
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) expect(norm(p.gradient) == 0, "forward and drop: {} has a gradient", p.name);
  family.run(columns, 1);
  size_t at = 0;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table)
      expect(p.values == before[at++], "forward and backward: the values of {} were changed; they are the host's",
             p.name);
}

void dropped_batches_do_not_count(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums wanted = family.run(columns, 1);
  const auto first = gradients(family);
  family.zero_gradients();
  family.run(columns, 0);
  const StepSums again = family.run(columns, 1);
  expect(wanted.loss == again.loss && first == gradients(family),
         "after a dropped micro-batch: expected what came before it, got another loss or gradient");
}

void gradients_are_added_to(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  family.run(columns, 1);
  auto twice = gradients(family);
  for (auto& tensor : twice)
    for (float& value : tensor) value *= 2;
  family.run(columns, 1);
  expect_close(family, gradients(family), twice, kLoose, "two micro-batches of the same samples");
}

void loss_scale_scales(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums plain = family.run(columns, 1);
  auto wanted = gradients(family);
  size_t at = 0;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      if (!counts(p))
        for (float& value : wanted[at]) value *= 0.25f;
      ++at;
    }
  family.zero_gradients();
  const StepSums scaled = family.run(columns, 0.25);
  expect(plain.loss == scaled.loss, "loss_sum: expected it without loss_scale, got {} and {}", plain.loss, scaled.loss);
  expect_close(family, gradients(family), wanted, 1e-5, "a quarter of the loss scale");
}

void every_parameter_gets_a_gradient(Bench& b) {
  Family family(b);
  family.build();
  family.run(family.collate(family.the_case.samples), 1);
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      if (p.tied >= 0 || (p.description.flags & (LF_PARAM_BUFFER | LF_PARAM_DEAD | LF_PARAM_EXPERT)) != 0) continue;
      if (counts(p)) continue;  // a balanced load counts nothing
      for (const float value : p.gradient) expect(std::isfinite(value), "the gradient of {} holds {}", p.name, value);
      expect(
          norm(p.gradient) > 0,
          "{} got no gradient from any sample of the case; state LF_PARAM_DEAD, or give the case samples that use it",
          p.name);
    }
}

void packed_equals_one_by_one(Bench& b) {
  Family family(b);
  family.build();
  const Columns all = family.collate(family.the_case.samples);
  const StepSums packed = family.run(all, 1);
  const auto wanted = gradients(family);
  family.zero_gradients();
  StepSums sum;
  for (const std::string& json : family.the_case.samples) {
    const StepSums one = family.run(family.collate({json}), 1, &all);
    sum.loss += one.loss;
    sum.weight += one.weight;
  }
  expect(sum.weight == packed.weight, "loss_weight one by one: expected {}, got {}", packed.weight, sum.weight);
  expect_near(sum.loss, packed.loss, kLoose, "loss_sum one by one");
  expect_close(family, gradients(family), wanted, kLoose, "samples one by one against packed");
}

void order_within_a_batch_does_not_matter(Bench& b) {
  Family family(b);
  family.build();
  const StepSums forwards = family.run(family.collate(family.the_case.samples), 1);
  const auto wanted = gradients(family);
  family.zero_gradients();
  std::vector<std::string> reversed(family.the_case.samples.rbegin(), family.the_case.samples.rend());
  const StepSums backwards = family.run(family.collate(reversed), 1);
  expect_near(backwards.loss, forwards.loss, kLoose, "loss_sum with the samples reversed");
  expect_close(family, gradients(family), wanted, kLoose, "samples reversed");
}

double loss_with(Family& family, const Columns& columns, Parameter& p, const std::vector<float>& at,
                 const std::vector<double>& direction, double step) {
  for (size_t i = 0; i < at.size(); ++i) p.values[i] = static_cast<float>(at[i] + step * direction[i]);
  const double loss = family.run(columns, 0).loss;
  p.values = at;
  return loss;
}

// Central differences of the loss along the gradient and along random directions. A direction is a unit vector; along
// random ones the slope is about |g| / sqrt(n), which measures all elements, where the gradient's own shows its size.
void gradients_are_the_slope_of_the_loss(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums at = family.run(columns, 1);
  std::mt19937 random(5);
  for (auto& table : family.parameters)
    for (Parameter& p : table) {
      if (p.tied >= 0 || (p.description.flags & LF_PARAM_BUFFER) != 0 || counts(p)) continue;
      const std::vector<float> values = p.values;
      const double size = norm(p.gradient), n = static_cast<double>(values.size());
      // Rounding in f32 makes the loss uncertain by about this much.
      const double noise = 2e-7 * std::max(1.0, std::abs(at.loss));
      if (size < 1e3 * noise) continue;  // nothing to measure
      const double rms = norm(values) / std::sqrt(n);
      {
        std::vector<double> direction(values.begin(), values.end());
        for (size_t i = 0; i < direction.size(); ++i) direction[i] = p.gradient[i] / size;
        // Far enough to see through the noise, near enough for the curve to look straight.
        const double step = std::min(300 * noise / size, 0.1 * std::max(rms, 0.01) * std::sqrt(n));
        const double slope = (loss_with(family, columns, p, values, direction, step) -
                              loss_with(family, columns, p, values, direction, -step)) /
                             (2 * step);
        expect(std::abs(slope - size) <= 0.05 * size + 4 * noise / step,
               "{}: the loss rises by {:.5g} along the gradient, whose size is {:.5g}", p.name, slope, size);
      }
      const double typical = size / std::sqrt(n);
      const double step = 0.05 * std::max(rms, 0.01) * std::sqrt(n);
      if (noise / step > 0.05 * typical) continue;  // too shallow to see among the rounding
      double apart = 0;
      constexpr int kDirections = 4;
      for (int d = 0; d < kDirections; ++d) {
        std::vector<double> direction(values.size());
        double wanted = 0;
        for (size_t i = 0; i < direction.size(); ++i) {
          direction[i] = (random() % 2 == 0 ? 1 : -1) / std::sqrt(n);
          wanted += direction[i] * p.gradient[i];
        }
        const double slope = (loss_with(family, columns, p, values, direction, step) -
                              loss_with(family, columns, p, values, direction, -step)) /
                             (2 * step);
        apart += (slope - wanted) * (slope - wanted) / kDirections;
      }
      expect(std::sqrt(apart) <= 0.2 * typical + 4 * noise / step,
             "{}: along random directions the loss rises otherwise than the gradient says, by {:.3g} where {:.3g} is "
             "typical; is a part of it missing?",
             p.name, std::sqrt(apart), typical);
    }
}

void frozen_parameters_stay_untouched(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums all = family.run(columns, 1);
  const auto wanted = gradients(family);
  // Every second one, so that the chain must still carry gradients past frozen ones.
  const auto frozen = [](const Parameter& p) { return p.owner % 2 == 0; };
  family.build({.frozen = [&](const Parameter& p) { return frozen(p); }});
  const StepSums some = family.run(columns, 1);
  expect_near(some.loss, all.loss, 1e-6, "loss_sum with frozen parameters");
  size_t at = 0;
  for (const auto& table : family.parameters)
    for (const Parameter& p : table) {
      if (p.tied < 0 && frozen(p)) expect(norm(p.gradient) == 0, "{} is frozen and got a gradient", p.name);
      if (p.tied < 0 && !frozen(p)) {
        double apart = 0, largest = 0;
        for (size_t i = 0; i < p.gradient.size(); ++i) {
          apart = std::max(apart, std::abs(static_cast<double>(wanted[at][i]) - p.gradient[i]));
          largest = std::max(largest, std::abs(static_cast<double>(wanted[at][i])));
        }
        expect(apart <= kLoose * largest + 1e-7, "{}: its gradient depends on what else is frozen", p.name);
      }
      ++at;
    }
}

void all_frozen_runs_without_graph(Bench& b) {
  Family family(b);
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const double wanted = family.run(columns, 0).loss;
  family.build({.frozen = [](const Parameter&) { return true; }});
  expect_near(family.run(columns, 1).loss, wanted, 1e-6, "loss_sum with everything frozen");
}

void recompute_changes_nothing(Bench& b, int32_t how) {
  Family family(b);
  if ((family.api->abilities & LF_MODEL_RECOMPUTE) == 0) throw Skip("LF_MODEL_RECOMPUTE is not stated");
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums plain = family.run(columns, 1);
  const auto wanted = gradients(family);
  family.build({.recompute = how});
  const StepSums again = family.run(columns, 1);
  expect(plain.loss == again.loss, "loss_sum with recomputation: expected {}, got {}", plain.loss, again.loss);
  expect_close(family, gradients(family), wanted, 1e-5, "recomputation");
}

void cut_stages_equal_the_whole(Bench& b) {
  Family family(b);
  if ((family.api->abilities & LF_MODEL_STAGES) == 0) throw Skip("LF_MODEL_STAGES is not stated");
  family.build();
  const Columns columns = family.collate(family.the_case.samples);
  const StepSums whole = family.run(columns, 1);
  const auto wanted = gradients(family);
  for (uint32_t c = 0; c < family.components.size(); ++c)
    for (uint32_t unit = 1; unit < family.components[c].n_units; ++unit) {
      bool tied_across = false;  // a tie between two stages is the host's to arrange
      for (Parameter& p : family.parameters[c])
        tied_across |= p.tied >= 0 && (p.description.unit >= unit) != (family.owner(p).description.unit >= unit);
      family.build({.cuts = {{c, unit}}});
      const StepSums cut = family.run(columns, 1);
      expect_near(cut.loss, whole.loss, kLoose, "loss_sum of two stages");
      if (!tied_across) expect_close(family, gradients(family), wanted, kLoose, "two stages against the whole");
    }
}

void units_are_told_in_order(Bench& b) {
  Family family(b);
  family.build();
  family.run(family.collate(family.the_case.samples), 1);
  if (family.events.empty()) throw Skip("says nothing of its units: one unit to the host");
  std::map<std::tuple<lf_stage, uint32_t, uint64_t>, int32_t> last;
  for (const UnitEvent& event : family.events) {
    expect(event.what >= LF_UNIT_NEED_FORWARD && event.what <= LF_UNIT_DONE_WEIGHTS, "unit: unknown event {}",
           event.what);
    int32_t& before = last[{event.stage, event.unit, event.micro_batch}];
    expect(event.what > before, "unit {}: event {} was told after event {}; expected each once, in order", event.unit,
           event.what, before);
    before = event.what;
  }
  for (const auto& table : family.parameters)
    for (const Parameter& p : table)
      expect(p.done || norm(p.gradient) == 0, "{} has a gradient, but its unit never said LF_UNIT_DONE_WEIGHTS",
             p.name);
}

void unknown_types_are_refused(Bench& b) {
  Family family(b);
  for (const int32_t dtype : {0x4711, static_cast<int32_t>(LF_DTYPE_BOOL)}) {
    auto config = sdk::with_header<lf_stage_config>();
    config.n_units = family.components[0].n_units;
    config.dtype = dtype;
    lf_stage stage = nullptr;
    family.ask<&Api::stage_new>(family.model, static_cast<const lf_stage_config*>(&config), &stage).must_fail();
  }
}

// The kit opens no device, so any is unknown; one taken for the host's memory ends in a crash at the first row.
void unknown_devices_are_refused(Bench& b) {
  Family family(b);
  auto config = sdk::with_header<lf_stage_config>();
  config.n_units = family.components[0].n_units;
  config.dtype = LF_DTYPE_F32;
  config.device_uid = 0x6e6f626f64790001;
  lf_stage stage = nullptr;
  family.ask<&Api::stage_new>(family.model, static_cast<const lf_stage_config*>(&config), &stage)
      .must_fail({LF_E_UNSUPPORTED});
}

void stages_out_of_range_are_refused(Bench& b) {
  Family family(b);
  for (const auto& [component, first, units] :
       {std::tuple{1000u, 0u, 1u}, std::tuple{0u, 0u, 100000u}, std::tuple{0u, 100000u, 1u}}) {
    auto config = sdk::with_header<lf_stage_config>();
    config.component = component;
    config.first_unit = first;
    config.n_units = units;
    config.dtype = LF_DTYPE_F32;
    lf_stage stage = nullptr;
    family.ask<&Api::stage_new>(family.model, static_cast<const lf_stage_config*>(&config), &stage).must_fail();
  }
}

void unknown_batches_are_refused(Bench& b) {
  Family family(b);
  family.build();
  lf_stage stage = nullptr;
  auto config = sdk::with_header<lf_stage_config>();
  config.component = static_cast<uint32_t>(family.components.size() - 1);
  config.n_units = family.components.back().n_units;
  config.dtype = LF_DTYPE_F32;
  family.ask<&Api::stage_new>(family.model, static_cast<const lf_stage_config*>(&config), &stage).must_succeed();
  std::vector<lf_tensor> gin(family.edges.size() + 1, sdk::with_header<lf_tensor>());
  family
      .ask<&Api::backward>(stage, uint64_t{987654}, int32_t{LF_BACKWARD_BOTH}, static_cast<const lf_tensor*>(nullptr),
                           0u, gin.data(), static_cast<uint32_t>(family.edges.size()), 1.0, lf_stream{})
      .must_fail();
  family.ask<&Api::drop>(stage, uint64_t{987654}).may_fail();
  family.ask<&Api::stage_free>(stage).must_succeed();
}

void state_round_trips(Bench& b) {
  Family family(b);
  if (!family.has<&Api::state_save>() || !family.has<&Api::state_load>()) throw Skip("state_save is not offered");
  std::string first, second;
  family.ask<&Api::state_save>(family.model, sdk::string_sink(first)).must_succeed();
  family.ask<&Api::state_load>(family.model, static_cast<const void*>(first.data()), uint64_t{first.size()})
      .must_succeed();
  family.ask<&Api::state_save>(family.model, sdk::string_sink(second)).must_succeed();
  expect(first == second, "state_save after state_load: expected the same {} bytes, got {}", first.size(),
         second.size());
}

}  // namespace

std::vector<Case> model_pass_cases() {
  return {
      {"the_loss_is_a_sum_with_its_count", loss_is_a_sum_with_its_count},
      {"the_same_batch_gives_the_same_bits", the_same_batch_gives_the_same_bits},
      {"forward_changes_neither_values_nor_gradients", forward_alone_changes_nothing},
      {"dropped_batches_do_not_count", dropped_batches_do_not_count},
      {"gradients_are_added_to", gradients_are_added_to},
      {"loss_scale_scales_gradients_alone", loss_scale_scales},
      {"every_parameter_gets_a_gradient", every_parameter_gets_a_gradient},
      {"gradients_are_the_slope_of_the_loss", gradients_are_the_slope_of_the_loss},
      {"samples_packed_equal_samples_one_by_one", packed_equals_one_by_one},
      {"the_order_of_samples_does_not_matter", order_within_a_batch_does_not_matter},
      {"frozen_parameters_stay_untouched", frozen_parameters_stay_untouched},
      {"with_everything_frozen_the_loss_is_the_same", all_frozen_runs_without_graph},
      {"inner_recomputation_changes_nothing", [](Bench& b) { recompute_changes_nothing(b, LF_RECOMPUTE_INNER); }},
      {"whole_recomputation_changes_nothing", [](Bench& b) { recompute_changes_nothing(b, LF_RECOMPUTE_WHOLE); }},
      {"two_stages_equal_the_whole", cut_stages_equal_the_whole},
      {"units_are_told_in_order", units_are_told_in_order},
      {"unknown_compute_types_are_refused", unknown_types_are_refused},
      {"a_stage_on_an_unknown_device_is_refused", unknown_devices_are_refused},
      {"stages_out_of_range_are_refused", stages_out_of_range_are_refused},
      {"an_unknown_micro_batch_is_refused", unknown_batches_are_refused},
      {"state_round_trips", state_round_trips},
  };
}

}  // namespace lf::kit
