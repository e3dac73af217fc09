#include "model/parameter_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/host_device.h"

namespace lf {
namespace {

using testing::HasSubstr;

ParameterInfo parameter(const std::string& name, std::vector<int64_t> shape, int64_t tied_to = -1, uint32_t flags = 0) {
  ParameterInfo info;
  info.name = name;
  info.shape = std::move(shape);
  info.tied_to = tied_to;
  info.flags = flags;
  return info;
}

// Two components: a tower of two units, a decoder of three whose last unit has a head tied to the embedding.
Description two_components() {
  Description d;
  d.components = {{"vision", 2, LF_ROWS_TOKEN, {"rows"}, 0, 2}, {"language", 3, LF_ROWS_TOKEN, {"rows"}, 2, 4}};
  d.parameters = {parameter("visual.blocks.0.weight", {3, 5}),
                  parameter("visual.merger.weight", {7}),
                  parameter("model.embed.weight", {11, 2}),
                  parameter("model.layers.0.weight", {33}),
                  parameter("model.layers.0.dead", {4}, -1, LF_PARAM_DEAD),
                  parameter("lm_head.weight", {11, 2}, 2)};
  d.parameter_unit = {0, 1, 0, 1, 1, 2};
  return d;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Freezing, a_pattern_that_matches_nothing_is_an_error_that_names_it) {
  const std::string message = message_of([] { freeze(two_components(), {"vision", "visual.blcks.*"}); });
  EXPECT_THAT(message, HasSubstr("\"visual.blcks.*\" matches no parameter"));
  EXPECT_THAT(message, HasSubstr("visual.blocks.0.weight"));
}

TEST(Freezing, a_component_name_freezes_the_component_and_nothing_else) {
  const Description d = two_components();
  const Freezing f = freeze(d, {"vision"});
  EXPECT_EQ(f.frozen, (std::vector<bool>{true, true, false, false, true, false}));
  EXPECT_TRUE(f.all_frozen(d.components[0]));
  EXPECT_FALSE(f.all_frozen(d.components[1]));
}

TEST(Freezing, a_tied_parameter_is_frozen_with_the_one_it_is_tied_to) {
  EXPECT_TRUE(freeze(two_components(), {"model.embed.*"}).frozen[5]);
  EXPECT_FALSE(freeze(two_components(), {"visual.*"}).frozen[5]);
}

TEST(Freezing, the_name_of_a_tied_parameter_alone_is_refused_as_it_would_freeze_or_train_nothing) {
  const Description d = two_components();
  EXPECT_EQ(
      message_of([&] { freeze(d, {"lm_head*"}); }),
      "model.freeze: \"lm_head*\" matches lm_head.weight, which is tied to model.embed.weight and has no values of "
      "its own; name that too, or narrow the pattern");
  EXPECT_TRUE(freeze(d, {"lm_head*", "model.embed*"}).frozen[5]);
  Description adapted = d;
  adapted.parameters.push_back(parameter("adapter", {2}, -1, kParameterAdapter));
  adapted.parameter_unit.push_back(2);
  adapted.adapters = {{}};
  adapted.adapters[0].parameter = 6;
  EXPECT_THAT(message_of([&] { freeze(adapted, {}, {"lm_head*"}); }),
              HasSubstr("lora.also_train: \"lm_head*\" matches lm_head.weight, which is tied to model.embed.weight"));
}

TEST(Freezing, nothing_left_to_train_is_an_error) {
  EXPECT_THAT(message_of([] { freeze(two_components(), {"*"}); }), HasSubstr("nothing is left to train"));
}

TEST(ParameterStore, a_units_gradients_are_one_range_and_ranges_follow_one_another) {
  const Device device(test::host_device(), "cpu", 0);
  const Description d = two_components();
  const ParameterStore store(d, freeze(d, {}), device, LF_DTYPE_F32);
  int64_t at = 0;
  for (const UnitRange& range : store.units()) {
    EXPECT_EQ(range.begin, at);
    at = range.end;
  }
  EXPECT_EQ(at, store.trained_elements());
  ASSERT_EQ(store.units().size(), 5u);
  EXPECT_EQ(store.units()[4].begin, store.units()[4].end) << "the tied head has no parameters of its own";
  for (const ParameterSlot& slot : store.slots()) {
    const UnitRange& range = store.units()[slot.unit];
    if (slot.trained) {
      EXPECT_LE(range.begin, slot.offset);
      EXPECT_LE(slot.offset + slot.elements, range.end);
    }
  }
}

TEST(ParameterStore, a_tied_parameter_is_the_same_memory) {
  const Device device(test::host_device(), "cpu", 0);
  const Description d = two_components();
  const ParameterStore store(d, freeze(d, {}), device, LF_DTYPE_F32);
  EXPECT_EQ(store.value_view(5).data, store.value_view(2).data);
  EXPECT_EQ(store.gradient_view(5).data, store.gradient_view(2).data);
  EXPECT_NE(store.value_view(3).data, store.value_view(2).data);
}

TEST(ParameterStore, frozen_and_dead_parameters_have_no_gradient) {
  const Device device(test::host_device(), "cpu", 0);
  const Description d = two_components();
  const ParameterStore store(d, freeze(d, {"vision"}), device, LF_DTYPE_F32);
  EXPECT_EQ(store.gradient_view(0).dtype, 0);
  EXPECT_EQ(store.gradient_view(4).dtype, 0);
  EXPECT_EQ(store.gradient_view(3).dtype, LF_DTYPE_F32);
  EXPECT_NE(store.value_view(0).data, nullptr);
}

TEST(ParameterStore, set_values_come_back_rounded_once_to_what_the_model_reads) {
  const Device device(test::host_device(), "cpu", 0);
  const Description d = two_components();
  const ParameterStore store(d, freeze(d, {"vision"}), device, LF_DTYPE_BF16);
  const std::vector<float> values{1.0f, 1.00390625f, -3.1415927f, 0.0f, 65280.0f, 1e-3f, 2.0f};
  const ParameterSlot& frozen = store.slot(1);
  store.set_values(frozen, values);
  EXPECT_EQ(store.values_f32(frozen)[2], -3.140625f) << "the nearest bf16 of -pi";
  std::vector<float> many(33, -3.1415927f);
  const ParameterSlot& trained = store.slot(3);
  store.set_values(trained, many);
  EXPECT_EQ(store.values_f32(trained)[0], -3.1415927f) << "master keeps f32";
  const auto* read = static_cast<const uint16_t*>(store.value_view(3).data);
  EXPECT_EQ(read[0], 0xC049) << "and the model reads bf16";
}

}  // namespace
}  // namespace lf
