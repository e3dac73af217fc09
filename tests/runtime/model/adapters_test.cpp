#include "model/adapters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "model/parameter_store.h"
#include "support/host_device.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ParameterPart part(const std::string& name, std::vector<int64_t> shape, const std::string& class_name = "") {
  ParameterPart made;
  made.name = name;
  made.shape = std::move(shape);
  made.class_name = class_name;
  return made;
}

ParameterInfo described(const std::string& name, std::vector<int64_t> shape, std::vector<ParameterPart> parts,
                        uint32_t flags = 0) {
  ParameterInfo info;
  info.name = name;
  info.shape = std::move(shape);
  info.parts = std::move(parts);
  info.flags = flags;
  return info;
}

// A tower with one map; a decoder with an embedding, a fused map of q [6], k [2] and v [2], and experts.
Description tower_and_decoder() {
  Description d;
  d.components = {{"vision", 1, LF_ROWS_TOKEN, {"rows"}, 0, 1}, {"language", 3, LF_ROWS_TOKEN, {"rows"}, 1, 3}};
  d.parameters = {described("visual.fc.weight", {7, 5}, {part("visual.fc.weight", {7, 5}, "model.visual.fc.weight")},
                            LF_PARAM_LINEAR),
                  described("embed.weight", {11, 4}, {part("embed.weight", {11, 4})}),
                  described("layers.0.qkv.weight", {10, 4},
                            {part("layers.0.q_proj.weight", {6, 4}), part("layers.0.k_proj.weight", {2, 4}),
                             part("layers.0.v_proj.weight", {2, 4})},
                            LF_PARAM_LINEAR),
                  described("layers.1.experts", {3, 4, 4}, {part("layers.1.experts", {3, 4, 4})})};
  d.parameter_unit = {0, 0, 1, 2};
  return d;
}

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<AdapterRequest> requests(std::vector<std::string> targets) {
  LoraSection lora;
  lora.targets = std::move(targets);
  return adapter_requests(tower_and_decoder(), lora);
}

TEST(Adapters, targets_are_components_parameters_and_their_tensors_by_either_name) {
  EXPECT_EQ(requests({"vision"}).size(), 1u);
  EXPECT_EQ(requests({"language"}).size(), 3u) << "q, k and v each; neither embedding nor experts";
  EXPECT_EQ(requests({"*.qkv"}).size(), 3u);
  EXPECT_EQ(requests({"model.visual.*"}).size(), 1u) << "as the class has it";
  EXPECT_EQ(requests({"visual.fc"}).size(), 1u);
  const auto v = requests({"*.v_proj.weight"});
  ASSERT_EQ(v.size(), 1u);
  EXPECT_EQ(v[0].parameter, 2u);
  EXPECT_EQ(v[0].part, 2u);
}

TEST(Adapters, a_pattern_without_a_map_says_what_is_near_or_why_it_cannot) {
  EXPECT_THAT(refusal_of([] { requests({"*.q_porj"}); }),
              AllOf(HasSubstr("lora.targets: \"*.q_porj\" matches nothing"), HasSubstr("layers.0.q_proj.weight")));
  EXPECT_THAT(refusal_of([] { requests({"*experts*"}); }),
              AllOf(HasSubstr("nothing that can have an adapter: layers.1.experts cannot"), HasSubstr("q_proj")));
}

TEST(Adapters, parameters_of_an_adapter_stand_in_the_unit_of_their_map_and_are_all_that_is_trained) {
  Description d = tower_and_decoder();
  add_adapters(d, requests({"*.k_proj", "vision"}));
  ASSERT_EQ(d.parameters.size(), 8u);
  EXPECT_EQ(d.own_parameters().size(), 4u);
  EXPECT_EQ(d.parameters[4].name, "visual.fc.lora_A.weight");
  EXPECT_EQ(d.parameters[4].parts[0].name, "base_model.model.model.visual.fc.lora_A.weight");
  EXPECT_THAT(d.parameters[4].shape, ElementsAre(16, 5));
  EXPECT_EQ(d.parameters[7].name, "layers.0.k_proj.lora_B.weight");
  EXPECT_THAT(d.parameters[7].shape, ElementsAre(2, 16));
  EXPECT_EQ(d.parameters[6].init_b, 0.5) << "1 / sqrt(4)";
  EXPECT_EQ(d.parameters[7].init, LF_INIT_ZEROS);
  const Freezing freezing = freeze(d, {"language"});
  EXPECT_THAT(freezing.frozen, ElementsAre(true, true, true, true, false, false, false, false));
  EXPECT_FALSE(freezing.all_frozen(d.components[0]));

  const Device device(test::host_device(), "cpu", 0);
  const ParameterStore store(d, freezing, device, LF_DTYPE_F32);
  const auto& range = store.units()[store.unit_index(1, 1)];
  for (const size_t p : {size_t{6}, size_t{7}}) {
    EXPECT_TRUE(store.slot(p).trained);
    EXPECT_LE(range.begin, store.slot(p).offset);
    EXPECT_LE(store.slot(p).offset + store.slot(p).elements, range.end);
  }
  EXPECT_EQ(store.units()[store.unit_index(1, 2)].begin, store.units()[store.unit_index(1, 2)].end);
}

TEST(Adapters, what_is_named_beside_them_is_trained_too_unless_it_is_adapted_or_frozen) {
  Description d = tower_and_decoder();
  add_adapters(d, requests({"*.k_proj"}));
  EXPECT_FALSE(freeze(d, {}, {"embed.*"}).frozen[1]);
  EXPECT_TRUE(freeze(d, {"embed.*"}, {"embed.*"}).frozen[1]);
  EXPECT_THAT(refusal_of([&] { freeze(d, {}, {"*.qkv.*"}); }), HasSubstr("has an adapter"));
  EXPECT_THAT(refusal_of([&] { freeze(d, {}, {"embde.*"}); }), HasSubstr("embed.weight"));
}

TEST(Adapters, a_map_that_two_groups_select_is_an_error_that_names_both) {
  LoraSection lora;
  lora.targets = {"language"};
  lora.groups = {{{"*.q_proj"}, 2, {}, {}}};
  EXPECT_THAT(refusal_of([&] { adapter_requests(tower_and_decoder(), lora); }),
              AllOf(HasSubstr("lora.groups: table 1"), HasSubstr("layers.0.q_proj.weight"), HasSubstr("lora.targets")));
}

// A table [11, 4], a stack of 3 experts, and a head that is tied to the table where asked for.
Description vocabulary(bool tied) {
  Description d;
  d.components = {{"language", 3, LF_ROWS_TOKEN, {"rows"}, 0, 4}};
  const auto expert = [](const std::string& which) {
    ParameterPart made = part("layers.0.experts.{}." + which, {3, 4, 5});
    made.flags = LF_PART_STACK | LF_PART_TRANSPOSE;
    made.stack = 3;
    return made;
  };
  d.parameters = {described("embed.weight", {11, 4}, {part("embed.weight", {11, 4}, "model.embed.weight")},
                            LF_PARAM_LINEAR | LF_PARAM_LOOKUP),
                  described("layers.0.experts.gate_up", {3, 4, 10}, {expert("gate"), expert("up")},
                            LF_PARAM_LINEAR | LF_PARAM_EXPERT),
                  described("layers.0.experts.down", {3, 5, 4}, {part("layers.0.experts.down", {3, 5, 4})},
                            LF_PARAM_LINEAR | LF_PARAM_EXPERT),
                  described("head.weight", {11, 4}, {part("head.weight", {11, 4})}, LF_PARAM_LINEAR | LF_PARAM_LOGITS)};
  d.parameters[1].join_axis = 2;
  if (tied) {
    d.parameters[3].tied_to = 0;
    d.parameters[3].parts = d.parameters[0].parts;
  }
  d.parameter_unit = {0, 1, 1, 2};
  return d;
}

std::vector<AdapterRequest> asked(const Description& description, std::vector<std::string> targets,
                                  double dropout = 0) {
  LoraSection lora;
  lora.targets = std::move(targets);
  lora.rank = 2;
  lora.dropout = dropout;
  return adapter_requests(description, lora);
}

std::vector<std::string> adapter_names(const Description& d, bool saved) {
  std::vector<std::string> names;
  for (size_t p = 4; p < d.parameters.size(); ++p)
    names.push_back(saved ? d.parameters[p].parts[0].name : d.parameters[p].name);
  return names;
}

TEST(Adapters, tables_heads_and_experts_are_meant_by_their_own_names_alone) {
  const Description d = vocabulary(false);
  EXPECT_THAT(refusal_of([&] { asked(d, {"language"}); }), HasSubstr("matches nothing"));
  EXPECT_THAT(refusal_of([&] { asked(d, {"*"}); }), HasSubstr("matches nothing"));
  EXPECT_THAT(refusal_of([&] { asked(d, {"*.down"}); }), HasSubstr("matches nothing"));
  EXPECT_EQ(asked(d, {"embed"}).size(), 1u);
  EXPECT_EQ(asked(d, {"head.*"}).size(), 1u);
  EXPECT_EQ(asked(d, {"*.experts.*"}).size(), 2u) << "one for a stack, however many tensors it is joined of";
  EXPECT_THAT(refusal_of([&] { asked(d, {"*.experts.*"}, 0.5); }), AllOf(HasSubstr("dropout"), HasSubstr("experts")));
}

TEST(Adapters, a_table_is_a_map_turned_over_and_experts_are_wrapped_as_peft_wraps_them) {
  Description d = vocabulary(false);
  add_adapters(d, asked(d, {"embed", "*.experts.*", "head"}));
  EXPECT_THAT(
      adapter_names(d, true),
      ElementsAre("base_model.model.model.embed.lora_embedding_B", "base_model.model.model.embed.lora_embedding_A",
                  "base_model.model.layers.0.experts.base_layer.lora_A.weight",
                  "base_model.model.layers.0.experts.base_layer.lora_B.weight",
                  "base_model.model.layers.0.experts.lora_A.weight", "base_model.model.layers.0.experts.lora_B.weight",
                  "base_model.model.head.lora_A.weight", "base_model.model.head.lora_B.weight"));
  EXPECT_THAT(d.parameters[4].shape, ElementsAre(2, 4));
  EXPECT_THAT(file_tensor_shape(d.parameters[5].parts[0]), ElementsAre(2, 11));
  EXPECT_EQ(d.parameters[4].init, LF_INIT_NORMAL);
  EXPECT_EQ(d.parameters[5].init, LF_INIT_ZEROS);
  EXPECT_THAT(d.parameters[6].shape, ElementsAre(6, 4));
  EXPECT_THAT(d.parameters[7].shape, ElementsAre(10, 6));
  EXPECT_EQ(d.adapters[1].module, "layers.0.experts");
  EXPECT_EQ(d.adapters[1].stack, "gate_up");
  Description one = vocabulary(false);
  add_adapters(one, asked(one, {"*.experts.gate_up"}));
  EXPECT_EQ(one.parameters[4].parts[0].name, "base_model.model.layers.0.experts.lora_A.weight");
}

TEST(Adapters, what_is_tied_shares_one_adapter_whichever_is_named) {
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{"embed"}, {"head"}, {"head", "embed"}, {"*e*d.weight"}}) {
    Description d = vocabulary(true);
    add_adapters(d, asked(d, targets));
    EXPECT_THAT(adapter_names(d, false), ElementsAre("embed.lora_embedding_B", "embed.lora_embedding_A",
                                                     "head.lora_A.weight", "head.lora_B.weight"));
    EXPECT_THAT(adapter_names(d, true)[2], HasSubstr("base_model.model.head.lora_A.weight"));
    EXPECT_EQ(d.parameters[6].tied_to, 4);
    EXPECT_EQ(d.parameters[7].tied_to, 5);
    EXPECT_EQ(d.adapters[1].shares, 0);
    const Device device(test::host_device(), "cpu", 0);
    const ParameterStore store(d, freeze(d, {}), device, LF_DTYPE_F32);
    EXPECT_EQ(store.value_view(6).data, store.value_view(4).data);
    EXPECT_EQ(store.gradient_view(7).data, store.gradient_view(5).data);
    EXPECT_EQ(d.parameter_count() - vocabulary(true).parameter_count(), 2 * (11 + 4)) << "counted once";
  }
}

}  // namespace
}  // namespace lf
