#include "weights/load.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gmock/gmock.h>

#include "runtime/weights/scratch.h"
#include "runtime/weights/tables.h"
#include "weights/convert.h"

namespace lf {
namespace {

using test::fixture;
using test::parameter;
using test::part;
using test::refusal;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Load, parts_of_shards_are_joined_and_converted) {
  const ModelDirectory directory = ModelDirectory::open(fixture("sharded"));
  const LoadPlan plan(directory, test::sharded_table(), {});
  std::vector<float> qk(12 * 6);
  plan.load(3, DType::kF32, qk.data());  // layer 1: q (8 x 6), then k (4 x 6); both start at 1000 in bf16
  EXPECT_EQ(qk[0], 1000.0f);
  EXPECT_EQ(qk[47], f32_from_bf16(bf16_from_f32(1047.0f)));
  EXPECT_EQ(qk[48], 1000.0f);
  EXPECT_EQ(plan.stored_dtype(3), DType::kBf16);
  EXPECT_TRUE(plan.unread().empty());
  EXPECT_FALSE(plan.has_fp8());
}

TEST(Load, all_that_does_not_fit_is_told_at_once) {
  const ModelDirectory directory = ModelDirectory::open(fixture("sharded"));
  std::vector<ParameterInfo> table = test::sharded_table();
  table[0].parts[0].name = "embed.wieght";
  table[1].parts[0].shape = {6, 6};  // q of layer 0, with the parameter's shape to match
  table[1].shape = {10, 6};
  for (int layer = 0; layer < 3; ++layer)
    table.push_back(parameter("layers." + std::to_string(layer) + ".norm.weight",
                              {{part("layers." + std::to_string(layer) + ".norm.weight", {6})}}));
  const std::string message = refusal([&] { LoadPlan(directory, table, {}); });
  EXPECT_THAT(message, StartsWith("65 "));
  EXPECT_THAT(message, HasSubstr("missing (4)"));
  EXPECT_THAT(message, HasSubstr("layers.{0..2}.norm.weight (3)"));
  EXPECT_THAT(message, HasSubstr("embed.wieght; did the file mean this by embed.weight?"));
  EXPECT_THAT(message, HasSubstr("layers.0.attn.q.weight: expected shape [6, 6], got [8, 6]"));
}

TEST(Load, what_may_be_absent_is_missed_in_part_alone) {
  const ModelDirectory directory = ModelDirectory::open(fixture("sharded"));
  std::vector<ParameterInfo> table = test::sharded_table();
  table.push_back(parameter("new.weight", {part("new.a", {2, 6}), part("new.b", {3, 6})}));
  table.push_back(parameter("half.weight", {part("half", {2, 6}), part("layers.0.norm", {3, 6})}));
  std::vector<bool> may(table.size());
  may[0] = may[7] = may[8] = true;
  EXPECT_THAT(refusal([&] { LoadPlan(directory, table, {}); }),
              AllOf(HasSubstr("missing (4)"), HasSubstr("model.new_parameters")));
  const LoadPlan plan(directory, table, {}, may);
  EXPECT_TRUE(plan.is_absent(7) && plan.is_absent(8));
  EXPECT_FALSE(plan.is_absent(0));  // it is there, so it is read
  table[8].parts[1].name = "layers.0.mlp.weight";
  table[8].parts[1].shape = {16, 6};
  table[8].shape = {18, 6};
  table.erase(table.begin() + 2);  // whose tensor it was
  may.erase(may.begin() + 2);
  EXPECT_THAT(refusal([&] { LoadPlan(directory, table, {}, may); }),
              AllOf(HasSubstr("missing (1)"), HasSubstr("half")));
}

TEST(Load, an_unread_tensor_is_an_error_unless_it_may_be_ignored) {
  const ModelDirectory directory = ModelDirectory::open(fixture("sharded"));
  std::vector<ParameterInfo> table = test::sharded_table();
  table.pop_back();  // layers.2.mlp.weight
  EXPECT_THAT(refusal([&] { LoadPlan(directory, table, {}); }),
              AllOf(HasSubstr("no part of this model (1)"), HasSubstr("layers.2.mlp.weight")));
  EXPECT_THAT(refusal([&] { LoadPlan(directory, table, {"layers.?.attn*"}); }), HasSubstr("layers.2.mlp.weight"));
  const LoadPlan plan(directory, table, {"layers.2.*.weight"});
  ASSERT_EQ(plan.unread().size(), 1u);
  EXPECT_EQ(plan.unread()[0].entry->name, "layers.2.mlp.weight");
}

// Against the definition: transpose and stack, element by element, for any layout.
TEST(Load, stacked_and_transposed_files_arrive_in_the_parameters_order_whatever_the_layout) {
  test::Scratch scratch;
  std::vector<TensorSpec> specs;
  for (int e = 0; e < 5; ++e) specs.push_back({"experts." + std::to_string(e) + ".w", DType::kF32, {70, 130}});
  specs.push_back({"fused", DType::kF32, {5, 70, 90}});
  test::write_numbered(scratch / "model.safetensors", specs);
  const ModelDirectory directory = ModelDirectory::open(scratch.path());
  ParameterPart stacked = part("experts.{}.w", {5, 130, 70}, LF_PART_STACK | LF_PART_TRANSPOSE, LF_ALONG_EP, 0);
  stacked.stack = 5;
  ParameterPart fused = part("fused", {5, 90, 70}, LF_PART_TRANSPOSE, LF_ALONG_EP, 0);
  ParameterInfo both = parameter("both", {stacked, fused}, 1);
  const LoadPlan plan(directory, {both}, {});
  const auto expected = [&](int64_t e, int64_t row, int64_t column) {
    const bool first = row < 130;
    const int64_t number = first ? column * 130 + row : e * 6300 + column * 90 + (row - 130);
    return test::number_of(first ? "experts." + std::to_string(e) + ".w" : "fused", number);
  };
  for (int64_t rank = 0; rank < 3; ++rank) {
    const Place place{0, 1, rank, 3};
    const std::vector<int64_t> shape = local_shape(both, place);
    const int64_t first_expert = rank * 5 / 3;
    Box box = whole(shape);
    box.begin[1] = 100;  // a box across the join
    box.end[1] = 200;
    box.begin[2] = 3;
    std::vector<float> values(static_cast<size_t>(box.elements()), NAN);
    plan.load(0, place, box, DType::kF32, values.data());
    size_t at = 0;
    for (int64_t e = 0; e < shape[0]; ++e) {
      for (int64_t row = 100; row < 200; ++row) {
        for (int64_t column = 3; column < 70; ++column)
          ASSERT_EQ(values[at++], expected(first_expert + e, row, column))
              << rank << ' ' << e << ' ' << row << ' ' << column;
      }
    }
  }
}

TEST(Load, fp8_blocks_are_scaled_as_the_reference_scales_them) {
  test::Scratch scratch;
  std::filesystem::copy(fixture("fp8.safetensors"), scratch / "model.safetensors");
  const ModelDirectory directory = ModelDirectory::open(scratch.path());
  const LoadPlan plan(directory, {parameter("w", {part("w.weight", {200, 300})})}, {});
  EXPECT_TRUE(plan.has_fp8());
  std::vector<float> values(200 * 300);
  plan.load(0, DType::kF32, values.data());
  const SafetensorsFile expected(fixture("fp8_expected.safetensors"));
  const auto* rows = reinterpret_cast<const double*>(expected.bytes(expected.at("sums_of_rows")).data());
  const auto* columns = reinterpret_cast<const double*>(expected.bytes(expected.at("sums_of_columns")).data());
  const auto* corner = reinterpret_cast<const float*>(expected.bytes(expected.at("corner")).data());
  for (int r = 0; r < 200; ++r) {
    double sum = 0;
    for (int c = 0; c < 300; ++c) sum += values[static_cast<size_t>(r * 300 + c)];
    ASSERT_NEAR(sum, rows[r], 1e-9) << r;
  }
  for (int c = 0; c < 300; ++c) {
    double sum = 0;
    for (int r = 0; r < 200; ++r) sum += values[static_cast<size_t>(r * 300 + c)];
    ASSERT_NEAR(sum, columns[c], 1e-9) << c;
  }
  for (int i = 0; i < 256; ++i) ASSERT_EQ(corner[i], values[static_cast<size_t>((120 + i / 16) * 300 + 120 + i % 16)]);

  // Transposed and cut, the same values.
  const LoadPlan turned(directory, {parameter("w", {part("w.weight", {300, 200}, LF_PART_TRANSPOSE, LF_ALONG_TP, 0)})},
                        {});
  std::vector<float> half(150 * 200);
  turned.load(0, {1, 2, 0, 1}, whole(std::vector<int64_t>{150, 200}), DType::kF32, half.data());
  for (int row = 0; row < 150; ++row) {
    for (int column = 0; column < 200; ++column)
      ASSERT_EQ(half[static_cast<size_t>(row * 200 + column)], values[static_cast<size_t>(column * 300 + 150 + row)]);
  }
}

TEST(Load, fp8_without_scales_is_refused) {
  test::Scratch scratch;
  test::write_numbered(scratch / "model.safetensors", {{"w", DType::kF8E4M3, {4, 4}}});
  const ModelDirectory directory = ModelDirectory::open(scratch.path());
  EXPECT_THAT(refusal([&] {
                LoadPlan(directory, {parameter("w", {part("w", {4, 4})})}, {});
              }),
              HasSubstr("w_scale_inv"));
}

TEST(Load, integers_are_refused_as_values) {
  test::Scratch scratch;
  test::write_numbered(scratch / "model.safetensors", {{"w", DType::kI64, {4}}});
  const ModelDirectory directory = ModelDirectory::open(scratch.path());
  EXPECT_THAT(refusal([&] { LoadPlan(directory, {parameter("w", {part("w", {4})})}, {}); }), HasSubstr("got I64"));
}

std::vector<ParameterInfo> tied_table() {
  std::vector<ParameterInfo> table = {parameter("embed", {part("embed", {30, 4})}),
                                      parameter("head", {part("head", {30, 4})})};
  table[1].tied_to = 0;
  return table;
}

TEST(Load, a_tied_parameter_may_be_absent_or_be_the_one_that_is_stored) {
  for (const char* stored : {"embed", "head"}) {
    test::Scratch scratch;
    test::write_numbered(scratch / "model.safetensors", {{stored, DType::kF32, {30, 4}}});
    const ModelDirectory directory = ModelDirectory::open(scratch.path());
    const LoadPlan plan(directory, tied_table(), {});
    for (const size_t i : {0, 1}) {
      std::vector<float> values(120);
      plan.load(i, DType::kF32, values.data());
      EXPECT_EQ(values[119], test::number_of(stored, 119));
    }
  }
}

TEST(Load, files_may_name_their_tensors_as_the_class_does_that_opens_them) {
  std::vector<ParameterInfo> table = {parameter("a", {part("model.a", {4})}), parameter("b", {part("visual.b", {6})}),
                                      parameter("c", {part("head", {3})})};
  table[0].parts[0].class_name = "model.language_model.a";
  table[1].parts[0].class_name = "model.visual.b";
  test::Scratch scratch;
  test::write_numbered(
      scratch / "model.safetensors",
      {{"model.language_model.a", DType::kF32, {4}}, {"model.visual.b", DType::kF32, {6}}, {"head", DType::kF32, {3}}});
  const ModelDirectory directory = ModelDirectory::open(scratch.path());
  const LoadPlan plan(directory, table, {});
  std::vector<float> values(6);
  plan.load(1, DType::kF32, values.data());
  EXPECT_EQ(values[5], test::number_of("model.visual.b", 5));
  EXPECT_EQ(plan.table()[0].parts[0].name, "model.language_model.a") << "as they are written back";
}

TEST(Load, a_tied_parameter_that_is_no_number_is_told_as_that_and_not_as_another_value) {
  test::Scratch scratch;
  test::write_numbered(scratch / "model.safetensors",
                       {{"embed", DType::kF32, {30, 4}}, {"head", DType::kF32, {30, 4}}});
  std::string bytes = test::slurp(scratch / "model.safetensors");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - sizeof nan, &nan, sizeof nan);
  test::spit(scratch / "model.safetensors", bytes);
  const ModelDirectory directory = ModelDirectory::open(scratch.path());
  EXPECT_THAT(refusal([&] { LoadPlan(directory, tied_table(), {}); }),
              HasSubstr("tensor head: expected finite values, got nan among them"));
}

TEST(Load, a_tied_parameter_with_values_of_its_own_is_refused) {
  test::Scratch scratch;
  test::write_numbered(scratch / "model.safetensors",
                       {{"embed", DType::kF32, {30, 4}}, {"head", DType::kF32, {30, 4}}});
  const ModelDirectory directory = ModelDirectory::open(scratch.path());
  EXPECT_THAT(refusal([&] { LoadPlan(directory, tied_table(), {}); }),
              AllOf(HasSubstr("ties head to embed"), HasSubstr("tie_word_embeddings")));
}

TEST(Load, one_tensor_read_by_two_parameters_is_a_fault_of_the_table) {
  const ModelDirectory directory = ModelDirectory::open(fixture("sharded"));
  std::vector<ParameterInfo> table = test::sharded_table();
  table.push_back(parameter("again", {part("embed.weight", {40, 6})}));
  EXPECT_THAT(refusal([&] { LoadPlan(directory, table, {}); }),
              AllOf(StartsWith("78 "), HasSubstr("again"), HasSubstr("embed.weight")));
}

}  // namespace
}  // namespace lf
