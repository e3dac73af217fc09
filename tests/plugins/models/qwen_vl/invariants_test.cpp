// What must not depend on how a micro-batch is run: cuts, recomputation, packing, freezing, precision.
#include <algorithm>
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/models/qwen_vl/abi_model.h"
#include "plugins/models/qwen_vl/columns.h"

namespace lf::test {
namespace {

using Gradients = std::map<std::string, std::vector<float>>;

struct Fixture {
  std::string directory;
  std::map<std::string, FileTensor> inputs;
  ColumnOptions columns;

  explicit Fixture(const std::string& name, const std::string& which = "mixed")
      : directory(std::string(LF_BUILD_DIR) + "/fixtures/references/" + name),
        inputs(read_safetensors(directory + "/" + which + "/inputs.safetensors")),
        columns{.merge = 2, .one_grid_per_frame = name.starts_with("qwen3")} {}

  std::unique_ptr<AbiModel> model(const ModelOptions& options = {}) const {
    auto made = std::make_unique<AbiModel>(LF_QWEN_VL_PLUGIN, read_file(directory + "/config.json"), options);
    made->load(read_safetensors(directory + "/model.safetensors"));
    return made;
  }
};

struct Outcome {
  StepResult step;
  Gradients gradients;
};

constexpr double kScale = 0.125;  // exact, so that scaling early or late gives the same bits

Outcome run(AbiModel& model, const std::vector<Columns>& micro_batches) {
  model.zero_gradients();
  Outcome outcome;
  for (const Columns& columns : micro_batches) {
    const StepResult step = model.run(columns, kScale);
    outcome.step.loss_sum += step.loss_sum;
    outcome.step.loss_weight += step.loss_weight;
    outcome.step.aux += step.aux;
  }
  outcome.gradients = model.gradients();
  return outcome;
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.step.loss_sum, b.step.loss_sum);
  for (const auto& [name, gradient] : a.gradients) EXPECT_EQ(gradient, b.gradients.at(name)) << name;
}

// Summation order is all that may differ: 1e-5 of the largest element, 1e-7 of the norm of all.
void expect_close(const Outcome& a, const Outcome& b, double share = 1e-5) {
  EXPECT_NEAR(a.step.loss_sum, b.step.loss_sum, 1e-6 * std::abs(a.step.loss_sum));
  double square_sum = 0;
  for (const auto& [name, gradient] : a.gradients)
    for (const float g : gradient) square_sum += static_cast<double>(g) * g;
  for (const auto& [name, gradient] : a.gradients) {
    double largest = 0, difference = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      largest = std::max<double>(largest, std::abs(gradient[i]));
      difference = std::max<double>(difference, std::abs(gradient[i] - b.gradients.at(name)[i]));
    }
    EXPECT_LE(difference, share * largest + 1e-2 * share * std::sqrt(square_sum)) << name;
  }
}

class EveryFamily : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Qwen, EveryFamily,
                         testing::Values("qwen2_vl-tiny", "qwen2_5_vl-tiny", "qwen3_vl-tiny", "qwen3_vl_moe-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(EveryFamily, components_cut_at_any_unit_give_the_bits_of_the_whole) {
  const Fixture fixture(GetParam());
  const Columns columns = make_columns(fixture.inputs, fixture.columns);
  ModelOptions options;
  if (fixture.directory.find("moe") != std::string::npos) options.options_json = R"({"router_aux_loss": "sample"})";
  const auto whole_model = fixture.model(options);
  const Outcome whole = run(*whole_model, {columns});
  for (const auto& cuts : std::vector<std::map<uint32_t, std::vector<uint32_t>>>{
           {{1, {1}}}, {{1, {2, 3}}}, {{1, {4}}}, {{0, {1}}, {1, {2}}}, {{0, {2, 4}}, {1, {1, 4}}}}) {
    options.cuts = cuts;
    const auto cut_model = fixture.model(options);
    expect_same_bits(whole, run(*cut_model, {columns}));
  }
}

TEST_P(EveryFamily, recomputed_units_give_the_bits_of_kept_ones) {
  const Fixture fixture(GetParam());
  const Columns columns = make_columns(fixture.inputs, fixture.columns);
  const auto kept = fixture.model();
  const Outcome reference = run(*kept, {columns});
  for (const int32_t recompute : {LF_RECOMPUTE_INNER, LF_RECOMPUTE_WHOLE}) {
    ModelOptions options;
    options.recompute = recompute;
    const auto model = fixture.model(options);
    expect_same_bits(reference, run(*model, {columns}));
  }
}

TEST_P(EveryFamily, knowing_the_loss_scale_in_forward_changes_no_bit) {
  const Fixture fixture(GetParam());
  const Columns columns = make_columns(fixture.inputs, fixture.columns);
  ModelOptions late;
  late.scale_ahead = false;
  const auto ahead_model = fixture.model(), late_model = fixture.model(late);
  expect_same_bits(run(*ahead_model, {columns}), run(*late_model, {columns}));
}

TEST_P(EveryFamily, the_same_step_twice_gives_the_same_bits) {
  const Fixture fixture(GetParam());
  const Columns columns = make_columns(fixture.inputs, fixture.columns);
  const auto model = fixture.model();
  const Outcome first = run(*model, {columns});
  expect_same_bits(first, run(*model, {columns}));
}

TEST_P(EveryFamily, packed_equals_one_by_one) {
  for (const char* which : {"mixed", "packed"}) {
    const Fixture fixture(GetParam(), which);
    const auto model = fixture.model();
    const Outcome together = run(*model, {make_columns(fixture.inputs, fixture.columns)});
    std::vector<Columns> alone;
    for (size_t s = 0; s < sequence_count(fixture.inputs); ++s)
      alone.push_back(make_columns(fixture.inputs, fixture.columns, {s}));
    const Outcome apart = run(*model, alone);
    EXPECT_EQ(together.step.loss_weight, apart.step.loss_weight);
    expect_close(together, apart);
  }
}

TEST_P(EveryFamily, a_frozen_tower_keeps_no_graph_and_changes_no_other_gradient) {
  const Fixture fixture(GetParam());
  const Columns columns = make_columns(fixture.inputs, fixture.columns);
  const auto free_model = fixture.model();
  const Outcome free = run(*free_model, {columns});
  ModelOptions options;
  options.frozen = [](const std::string& name) { return name.find("visual.") != std::string::npos; };
  const auto model = fixture.model(options);
  const Outcome frozen = run(*model, {columns});
  EXPECT_EQ(free.step.loss_sum, frozen.step.loss_sum);
  for (const auto& [name, gradient] : frozen.gradients) EXPECT_EQ(gradient, free.gradients.at(name)) << name;
  for (const UnitEvent& event : model->events())
    EXPECT_TRUE(event.component == 1 || event.what <= LF_UNIT_DONE_FORWARD);
}

TEST_P(EveryFamily, nothing_runs_backward_below_the_first_trained_layer) {
  const Fixture fixture(GetParam());
  const Columns columns = make_columns(fixture.inputs, fixture.columns);
  ModelOptions options;
  options.frozen = [](const std::string& name) { return name.find("layers.2.") == std::string::npos; };
  const auto model = fixture.model(options);
  const Outcome outcome = run(*model, {columns});
  std::vector<uint32_t> backward;
  for (const UnitEvent& event : model->events())
    if (event.what == LF_UNIT_DONE_WEIGHTS) backward.push_back(event.unit);
  EXPECT_THAT(backward, testing::ElementsAre(4, 3));
  const auto free_model = fixture.model();
  const Outcome free = run(*free_model, {columns});
  for (const auto& [name, gradient] : outcome.gradients) EXPECT_EQ(gradient, free.gradients.at(name)) << name;
}

TEST_P(EveryFamily, events_come_once_per_unit_in_order) {
  const Fixture fixture(GetParam());
  const auto model = fixture.model();
  run(*model, {make_columns(fixture.inputs, fixture.columns)});
  std::vector<UnitEvent> expected;
  for (const uint32_t component : {0u, 1u})
    for (uint32_t unit = 0; unit < 5; ++unit)
      for (const int32_t what : {LF_UNIT_NEED_FORWARD, LF_UNIT_DONE_FORWARD})
        expected.push_back({component, unit, what});
  for (const uint32_t component : {1u, 0u})
    for (uint32_t unit = 5; unit-- > 0;)
      for (const int32_t what : {LF_UNIT_NEED_BACKWARD, LF_UNIT_DONE_BACKWARD, LF_UNIT_DONE_WEIGHTS})
        expected.push_back({component, unit, what});
  EXPECT_EQ(model->events(), expected);
}

TEST_P(EveryFamily, a_batch_without_a_supervised_token_has_no_loss_and_no_gradient) {
  const Fixture fixture(GetParam());
  Columns columns = make_columns(fixture.inputs, fixture.columns);
  std::fill(columns.targets.begin(), columns.targets.end(), -100);
  for (const bool ahead : {true, false}) {
    ModelOptions options;
    options.scale_ahead = ahead;
    const auto model = fixture.model(options);
    const Outcome outcome = run(*model, {columns});
    EXPECT_EQ(outcome.step.loss_sum, 0);
    EXPECT_EQ(outcome.step.loss_weight, 0);
    for (const auto& [name, gradient] : outcome.gradients)
      EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float g) { return g == 0; })) << name;
  }
}

TEST_P(EveryFamily, a_micro_batch_of_no_rows_is_legal_and_adds_nothing) {
  const Fixture fixture(GetParam());
  Columns nothing;
  nothing.segment_starts = {0};
  const auto model = fixture.model();
  const Outcome outcome = run(*model, {nothing});
  EXPECT_EQ(outcome.step.loss_sum, 0);
  for (const auto& [name, gradient] : outcome.gradients)
    EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(), [](float g) { return g == 0; })) << name;
}

// bf16 holds 8 bits: rounding of each layer's rows is the expected difference, a wrong term would be of order 1.
TEST_P(EveryFamily, bf16_is_near_f32_with_gradients_summed_in_f32) {
  const Fixture fixture(GetParam());
  const Columns columns = make_columns(fixture.inputs, fixture.columns);
  const auto exact_model = fixture.model();
  const Outcome exact = run(*exact_model, {columns});
  ModelOptions options;
  options.dtype = LF_DTYPE_BF16;
  const auto model = fixture.model(options);
  const Outcome rounded = run(*model, {columns});
  EXPECT_NEAR(rounded.step.loss_sum, exact.step.loss_sum, 0.02 * exact.step.loss_sum);
  double dot = 0, exact_square = 0, rounded_square = 0;
  for (const auto& [name, gradient] : exact.gradients)
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double a = gradient[i], b = rounded.gradients.at(name)[i];
      dot += a * b;
      exact_square += a * a;
      rounded_square += b * b;
    }
  // A token that changes its expert near a tie moves whole rows, so the direction is only loosely held with experts.
  EXPECT_GT(dot / std::sqrt(exact_square * rounded_square),
            fixture.directory.find("moe") == std::string::npos ? 0.999 : 0.9);
}

TEST(BalanceLoss, per_sample_statistics_do_not_depend_on_how_samples_are_packed) {
  const Fixture fixture("qwen3_vl_moe-tiny");
  ModelOptions options;
  options.options_json = R"({"router_aux_loss": "sample"})";
  const auto model = fixture.model(options);
  const Outcome together = run(*model, {make_columns(fixture.inputs, fixture.columns)});
  const Outcome apart = run(
      *model, {make_columns(fixture.inputs, fixture.columns, {2, 3}),
               make_columns(fixture.inputs, fixture.columns, {0}), make_columns(fixture.inputs, fixture.columns, {1})});
  EXPECT_GT(together.step.aux, 0);
  EXPECT_NEAR(together.step.aux, apart.step.aux, 1e-5 * together.step.aux);
  expect_close(together, apart);
}

TEST(BalanceLoss, of_one_sample_is_the_same_pooled_or_per_sample) {
  const Fixture fixture("qwen3_vl_moe-tiny");
  const Columns columns = make_columns(fixture.inputs, fixture.columns, {0});
  ModelOptions pooled, single;
  pooled.options_json = R"({"router_aux_loss": "batch"})";
  single.options_json = R"({"router_aux_loss": "sample"})";
  const auto pooled_model = fixture.model(pooled), single_model = fixture.model(single);
  expect_close(run(*pooled_model, {columns}), run(*single_model, {columns}));
}

TEST(WrongInput, is_refused_by_name) {
  const Fixture fixture("qwen2_5_vl-tiny");
  const auto model = fixture.model();
  const Columns good = make_columns(fixture.inputs, fixture.columns);
  const auto message = [&](auto change) -> std::string {
    Columns bad = good;
    change(bad);
    try {
      model->run(bad, 1);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(message([](Columns& c) { c.input_ids[3] = 200; }), testing::HasSubstr("input_ids must lie in [0, 200)"));
  EXPECT_THAT(message([](Columns& c) { c.visual_rows.pop_back(); }), testing::HasSubstr("visual_rows"));
  EXPECT_THAT(message([](Columns& c) { c.grid_thw[1] = 3; }), testing::HasSubstr("multiples of 2"));
  EXPECT_THAT(message([](Columns& c) { c.grid_thw[0] = 2; }), testing::HasSubstr("pixel_values must be"));
  EXPECT_THAT(message([](Columns& c) { c.segment_starts.back() += 1; }), testing::HasSubstr("segment_starts"));
  EXPECT_THAT(message([](Columns& c) { c.visual_rows.back() = 10000; }), testing::HasSubstr("visual_rows"));
  EXPECT_THAT(message([](Columns& c) { c.targets[0] = 200; }), testing::HasSubstr("targets must lie below 200"));
  EXPECT_THAT(message([](Columns&) {}), "nothing");
}

}  // namespace
}  // namespace lf::test
