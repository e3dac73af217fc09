// What must not depend on how a micro-batch is run, and what of a sample is computed at all.
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/models/pi05/policy_case.h"
#include "plugins/models/qwen_vl/abi_model.h"

namespace lf::test {
namespace {

using Gradients = std::map<std::string, std::vector<float>>;

constexpr double kScale = 0.125;  // exact
enum Component : uint32_t { kVision, kLanguage, kAction };

struct Outcome {
  StepResult step;
  Gradients gradients;
};

class Pi05 : public testing::TestWithParam<const char*> {
 protected:
  std::string directory() const { return reference(GetParam()); }
  std::unique_ptr<AbiModel> model(const ModelOptions& options = {}) const {
    auto made = std::make_unique<AbiModel>(LF_PI05_PLUGIN, read_file(directory() + "/config.json"), options);
    made->load(read_safetensors(directory() + "/model.safetensors"));
    return made;
  }
  PolicyCase train() const { return PolicyCase(directory()); }
};
INSTANTIATE_TEST_SUITE_P(Fixtures, Pi05, testing::Values("pi05-tiny", "pi05-odd"), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

Outcome run(AbiModel& model, std::vector<PolicyCase> micro_batches, bool outputs = false) {
  model.zero_gradients();
  Outcome outcome;
  for (PolicyCase& one : micro_batches) {
    const std::vector<lf_named_tensor> fields = one.lent();
    StepResult step = model.run(model.collate(fields), kScale, outputs);
    outcome.step.loss_sum += step.loss_sum;
    outcome.step.loss_weight += step.loss_weight;
    outcome.step.outputs = std::move(step.outputs);
  }
  outcome.gradients = model.gradients();
  return outcome;
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.step.loss_sum, b.step.loss_sum);
  EXPECT_EQ(a.step.loss_weight, b.step.loss_weight);
  for (const auto& [name, gradient] : a.gradients) EXPECT_EQ(gradient, b.gradients.at(name)) << name;
}

// Summation order is all that may differ: 1e-5 of the largest element, 1e-7 of the norm of all.
void expect_close(const Outcome& a, const Outcome& b) {
  EXPECT_NEAR(a.step.loss_sum, b.step.loss_sum, 1e-6 * std::abs(a.step.loss_sum));
  EXPECT_EQ(a.step.loss_weight, b.step.loss_weight);
  double square_sum = 0;
  for (const auto& [name, gradient] : a.gradients)
    for (const float g : gradient) square_sum += static_cast<double>(g) * g;
  for (const auto& [name, gradient] : a.gradients) {
    double largest = 0, difference = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      largest = std::max<double>(largest, std::abs(gradient[i]));
      difference = std::max<double>(difference, std::abs(gradient[i] - b.gradients.at(name)[i]));
    }
    EXPECT_LE(difference, 1e-5 * largest + 1e-7 * std::sqrt(square_sum)) << name;
  }
}

TEST_P(Pi05, a_packed_micro_batch_gives_what_its_samples_give_one_by_one) {
  const auto whole = model(), apart = model();
  const PolicyCase all = train();
  expect_close(run(*whole, {all}), run(*apart, {all.only({0}), all.only({1}), all.only({2})}));
}

TEST_P(Pi05, components_cut_at_any_unit_and_recomputed_units_give_the_bits_of_the_whole) {
  const auto whole = model();
  const Outcome expected = run(*whole, {train()});
  for (const auto& cuts : std::vector<std::map<uint32_t, std::vector<uint32_t>>>{
           {{kVision, {1}}}, {{kLanguage, {1, 2}}}, {{kAction, {1, 3}}}, {{kLanguage, {1}}, {kAction, {2}}}}) {
    ModelOptions options;
    options.cuts = cuts;
    const auto cut = model(options);
    expect_same_bits(expected, run(*cut, {train()}));
  }
  ModelOptions options;
  options.recompute = LF_RECOMPUTE_WHOLE;
  const auto recomputed = model(options);
  expect_same_bits(expected, run(*recomputed, {train()}));
}

TEST_P(Pi05, an_absent_camera_is_no_rows_and_its_picture_is_never_read) {
  PolicyCase masked = train(), changed = train(), lacking = train();  // the third camera is absent everywhere
  std::fill(changed.tensors.at("image.2").floats.begin(), changed.tensors.at("image.2").floats.end(), 0.5f);
  lacking.tensors.erase("image.2");
  lacking.tensors.erase("image_mask.2");
  const auto a = model(), b = model(), c = model();
  const Outcome expected = run(*a, {masked});
  expect_same_bits(expected, run(*b, {changed}));
  expect_same_bits(expected, run(*c, {lacking}));
  // The second camera is absent in row 1: 3 + 2 images are there.
  const std::vector<lf_named_tensor> fields = masked.lent();
  EXPECT_EQ(a->collate(fields).atoms[kVision], 5u);
}

TEST_P(Pi05, a_sample_without_any_camera_trains_on_its_prompt_alone) {
  PolicyCase blind = train().only({0});
  for (const char* name : {"image_mask.0", "image_mask.1", "image_mask.2"}) blind.tensors.at(name).integers = {0};
  const auto made = model();
  const Outcome outcome = run(*made, {blind});
  EXPECT_GT(outcome.step.loss_sum, 0);
  for (const UnitEvent& event : made->events()) EXPECT_NE(event.component, kVision);
}

TEST_P(Pi05, padded_rows_of_prompts_are_left_out) {
  PolicyCase padded = train(), changed = train();
  FileTensor& tokens = changed.tensors.at("tokens");
  const std::vector<int64_t>& mask = changed.tensors.at("token_mask").integers;
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i] == 0) tokens.integers[i] = 5;
  const auto a = model(), b = model();
  expect_same_bits(run(*a, {padded}), run(*b, {changed}));
  // rows of the last component: what the prefixes and chunks have, no padding among them.
  const std::vector<lf_named_tensor> fields = padded.lent();
  const Collated batch = a->collate(fields);
  const int64_t kept = std::count(mask.begin(), mask.end(), 1);
  const auto images = static_cast<int64_t>(batch.features[kVision].size() / 2);
  const FileTensor& actions = padded.tensors.at("actions");
  EXPECT_EQ(batch.features[kAction][0], static_cast<double>(images) * batch.features[kVision][0] +
                                            static_cast<double>(kept) +
                                            static_cast<double>(actions.shape[0] * actions.shape[1]));
}

TEST_P(Pi05, padded_actions_leave_the_loss_a_mean_over_those_that_count) {
  PolicyCase padded = train();
  const FileTensor actions = padded.tensors.at("actions");
  const int64_t horizon = actions.shape[1], columns = actions.shape[2];
  FileTensor& pad = padded.tensors["action_is_pad"];
  pad.shape = {actions.shape[0], horizon};
  for (int64_t row = 0; row < actions.shape[0] * horizon; ++row)
    pad.integers.push_back(row % horizon >= horizon - row / horizon ? 1 : 0);  // none, one, two at the end
  const auto made = model();
  const Outcome outcome = run(*made, {padded}, /*outputs=*/true);
  const int64_t counted = padded.tensors.at("action_dim").integers.front();
  const std::vector<float>& element_loss = outcome.step.outputs.at(1);
  double sum = 0, rows = 0;
  for (size_t row = 0; row < pad.integers.size(); ++row) {
    if (pad.integers[row] != 0) continue;
    rows += 1;
    for (int64_t column = 0; column < counted; ++column)
      sum +=
          element_loss[row * static_cast<size_t>(columns) + static_cast<size_t>(column)] / static_cast<double>(counted);
  }
  EXPECT_EQ(outcome.step.loss_weight, rows);
  EXPECT_EQ(rows, static_cast<double>(actions.shape[0] * horizon - 3));
  EXPECT_NEAR(outcome.step.loss_sum, sum, 1e-5 * sum);
}

TEST_P(Pi05, a_micro_batch_of_padded_actions_alone_has_no_loss_and_no_gradient) {
  PolicyCase padded = train();
  const FileTensor actions = padded.tensors.at("actions");
  FileTensor& pad = padded.tensors["action_is_pad"];
  pad.shape = {actions.shape[0], actions.shape[1]};
  pad.integers.assign(static_cast<size_t>(actions.shape[0] * actions.shape[1]), 1);
  const auto made = model();
  const Outcome outcome = run(*made, {padded});
  EXPECT_EQ(outcome.step.loss_sum, 0);
  EXPECT_EQ(outcome.step.loss_weight, 0);
  for (const auto& [name, gradient] : outcome.gradients)
    EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float g) { return g == 0; })) << name;
}

// bf16 holds 8 bits: rounding of each layer's rows is the expected difference, a wrong term would be of order 1.
TEST_P(Pi05, bf16_is_near_f32_with_gradients_summed_in_f32) {
  const auto exact_model = model();
  const Outcome exact = run(*exact_model, {train()});
  ModelOptions options;
  options.dtype = LF_DTYPE_BF16;
  const auto rounded_model = model(options);
  const Outcome rounded = run(*rounded_model, {train()});
  EXPECT_NEAR(rounded.step.loss_sum, exact.step.loss_sum, 0.02 * exact.step.loss_sum);
  double dot = 0, exact_square = 0, rounded_square = 0, numbers = 0, finer = 0;
  for (const auto& [name, gradient] : exact.gradients)
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double a = gradient[i], b = rounded.gradients.at(name)[i];
      dot += a * b;
      exact_square += a * a;
      rounded_square += b * b;
      numbers += b != 0;
      finer += (std::bit_cast<uint32_t>(rounded.gradients.at(name)[i]) & 0xFFFF) != 0;
    }
  EXPECT_GT(dot / std::sqrt(exact_square * rounded_square), 0.999);
  EXPECT_GT(finer, 0.9 * numbers) << "gradients were rounded to bf16 before they were added";
}

// Units that heard of a backward.
std::set<std::pair<uint32_t, uint32_t>> went_back(const AbiModel& model) {
  std::set<std::pair<uint32_t, uint32_t>> units;
  for (const UnitEvent& event : model.events())
    if (event.what == LF_UNIT_NEED_BACKWARD) units.emplace(event.component, event.unit);
  return units;
}

TEST_P(Pi05, a_frozen_prefix_keeps_no_graph_and_leaves_the_experts_gradients_as_they_are) {
  const auto trained = model();
  const Outcome all = run(*trained, {train()});
  ModelOptions options;
  options.frozen = [](const std::string& name) { return name.starts_with("paligemma_with_expert.paligemma."); };
  const auto made = model(options);
  const Outcome outcome = run(*made, {train()});
  EXPECT_EQ(outcome.step.loss_sum, all.step.loss_sum);
  EXPECT_FALSE(outcome.gradients.empty());
  for (const auto& [name, gradient] : outcome.gradients) EXPECT_EQ(gradient, all.gradients.at(name)) << name;
  for (const auto& [component, unit] : went_back(*made)) EXPECT_EQ(component, kAction);
}

TEST_P(Pi05, a_frozen_tower_under_a_trained_projector_keeps_no_graph) {
  const auto trained = model();
  const Outcome all = run(*trained, {train()});
  ModelOptions options;
  options.frozen = [](const std::string& name) { return name.find(".vision_tower.") != std::string::npos; };
  const auto made = model(options);
  const Outcome outcome = run(*made, {train()});
  for (const auto& [name, gradient] : outcome.gradients) EXPECT_EQ(gradient, all.gradients.at(name)) << name;
  const auto units = went_back(*made);
  EXPECT_EQ(std::count_if(units.begin(), units.end(), [](const auto& unit) { return unit.first == kVision; }), 1);
}

TEST_P(Pi05, the_recorded_actions_are_sampled_from_one_pass_of_the_prefix) {
  PolicyCase given(directory());
  given.tensors["sampling_steps"] = {{}, {}, {4}};
  const auto made = model();
  const Outcome outcome = run(*made, {given}, /*outputs=*/true);
  const auto expected = read_safetensors(directory() + "/train/expected.safetensors");
  const std::vector<float>& wanted = expected.at("sampled_actions").floats;
  const std::vector<float>& sampled = outcome.step.outputs.at(2);
  ASSERT_EQ(sampled.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(sampled[i], wanted[i], 2e-5) << i;
  // Each unit of the prefix ran once.
  std::map<std::pair<uint32_t, uint32_t>, int> runs;
  for (const UnitEvent& event : made->events())
    if (event.what == LF_UNIT_DONE_FORWARD) ++runs[{event.component, event.unit}];
  for (const auto& [unit, count] : runs) EXPECT_EQ(count, 1) << unit.first << "." << unit.second;
}

}  // namespace
}  // namespace lf::test
