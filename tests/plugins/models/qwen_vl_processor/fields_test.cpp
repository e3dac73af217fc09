#include "qwen_vl/processor/fields.h"

#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "models.h"
#include "qwen_vl/processor/columns.h"
#include "qwen_vl/processor/processor.h"
#include "tensors.h"

namespace lf::qwen_vl {
namespace {

using nlohmann::json;

std::filesystem::path fixture() {
  return std::filesystem::path(LF_SOURCE_DIR) / "tests/fixtures/processor/reference_inputs.json";
}

// The fields of a recorded case; every patch's values are its number, pictures' from 0, videos' from 10,000.
void fill(const json& recorded, test::NamedTensors& out) {
  for (const auto& [name, field] : recorded.items()) {
    const auto shape = field["shape"].get<std::vector<int64_t>>();
    if (name == "pixel_values" || name == "pixel_values_videos") {
      std::vector<float> values;
      for (int64_t patch = 0; patch < shape[0]; ++patch)
        values.insert(values.end(), static_cast<size_t>(shape[1]),
                      static_cast<float>(patch + (name == "pixel_values" ? 0 : 10'000)));
      out.add_floats(name, std::move(values), shape);
    } else if (field["dtype"] == "float32") {
      out.add_floats(name, field["values"], shape);
    } else if (field["dtype"] == "int32") {
      out.add(name, field["values"].get<std::vector<int32_t>>(), shape, LF_DTYPE_I32);
    } else {
      out.add_integers(name, field["values"], shape);
    }
  }
}

TEST(Fields, every_parity_case_gets_the_authors_positions_targets_and_pixels) {
  const json cases = json::parse(std::ifstream(fixture()));
  ASSERT_GE(cases.size(), 24u);
  for (const json& one : cases) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const QwenVlConfig config = parse_config(one["config"].dump());
    const QwenVlProcessor processor(nullptr, config, "{}");
    test::NamedTensors fields;
    fill(one["fields"], fields);
    auto sample = sdk::with_header<lf_sample>();
    sample.json = sdk::str("{}");
    sample.fields = fields.view().data();
    sample.n_fields = static_cast<uint32_t>(fields.view().size());
    const lf_sample* samples[] = {&sample};
    const Columns made = processor.collate(samples);
    const auto columns = made.view();
    const auto ids = test::integers(columns, "input_ids"), targets = test::integers(columns, "targets"),
               places = test::integers(columns, "source_row"), positions = test::integers(columns, "position_ids"),
               starts = test::integers(columns, "segment_starts");
    const size_t n = ids.size();
    ASSERT_EQ(targets.size(), n);
    ASSERT_EQ(places.size(), n);
    ASSERT_EQ(positions.size(), 3 * n);
    ASSERT_EQ(starts.back(), static_cast<int64_t>(n));

    const auto given = [&](const char* name) { return one["fields"][name]["values"].get<std::vector<int64_t>>(); };
    const auto all_ids = given("input_ids"), all_labels = given("labels"), all_positions = given("position_ids");
    const auto mask =
        one["fields"].contains("attention_mask") ? given("attention_mask") : std::vector<int64_t>(all_ids.size(), 1);
    EXPECT_EQ(n, static_cast<size_t>(std::accumulate(mask.begin(), mask.end(), int64_t{0})));
    size_t supervised = 0;
    for (size_t row = 0; row < n; ++row) {
      const auto at = static_cast<size_t>(places[row]);
      ASSERT_EQ(mask[at], 1);
      EXPECT_EQ(ids[row], all_ids[at]);
      for (size_t axis = 0; axis < 3; ++axis)
        EXPECT_EQ(positions[axis * n + row], all_positions[axis * all_ids.size() + at]) << axis << " " << row;
      const bool last = std::find(starts.begin(), starts.end(), static_cast<int64_t>(row + 1)) != starts.end();
      EXPECT_EQ(targets[row], last ? -100 : all_labels[at + 1]);
      supervised += targets[row] != -100;
    }
    const Features features = processor.features(sample);
    EXPECT_EQ(features.language[0], static_cast<double>(n));
    EXPECT_EQ(features.language[1], static_cast<double>(supervised));

    if (test::find(columns, "pixel_values") == nullptr) {
      EXPECT_FALSE(one["fields"].contains("pixel_values") || one["fields"].contains("pixel_values_videos"));
      EXPECT_EQ(features.vision_atoms(), 0u);
      continue;
    }
    // Pictures and videos in the order in which their tokens stand, each patch once.
    const auto pixels = test::floats(columns, "pixel_values");
    const auto rows = test::integers(columns, "visual_rows"), grids = test::integers(columns, "grid_thw");
    const auto width = static_cast<size_t>(config.vision.patch_columns());
    EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
    float image_patch = 0, video_patch = 10'000;
    size_t patch = 0, row = 0;
    double atom_rows = 0;
    for (size_t i = 0; i < features.vision.size(); i += 3) atom_rows += features.vision[i];
    for (size_t i = 0; i < grids.size(); i += 3) {
      const int64_t patches = grids[i] * grids[i + 1] * grids[i + 2];
      const bool video = ids[static_cast<size_t>(rows[row])] == config.video_token_id;
      for (int64_t p = 0; p < patches; ++p, ++patch)
        EXPECT_EQ(pixels[patch * width], video ? video_patch++ : image_patch++);
      for (int64_t t = 0; t < patches / 4; ++t, ++row)
        EXPECT_EQ(ids[static_cast<size_t>(rows[row])], video ? config.video_token_id : config.image_token_id);
    }
    EXPECT_EQ(row, rows.size());
    EXPECT_EQ(patch * width, pixels.size());
    EXPECT_EQ(atom_rows, static_cast<double>(patch));
  }
}

class FieldsErrors : public testing::Test {
 protected:
  FieldsErrors() {
    config_ = test::small_model(Family::kQwen2_5Vl);
    const int64_t columns = config_.vision.patch_columns();
    fields_.add_integers("input_ids", {1, 151652, 151655, 151655, 151653, 5}, {1, 6});
    fields_.add_integers("labels", {-100, -100, -100, -100, -100, 5}, {1, 6});
    fields_.add_integers("image_grid_thw", {1, 2, 4}, {1, 3});
    fields_.add_floats("pixel_values", std::vector<float>(static_cast<size_t>(8 * columns)), {8, columns});
  }
  std::string refusal() {
    try {
      const auto sequences = read_fields(fields_.view(), config_);
      for (const Sequence& sequence : sequences)
        make_columns({&sequence, 1}, config_, [](const VisionInput&, float*) {});
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      return failure.what();
    }
    return "accepted";
  }
  void replace(const char* name, std::vector<int64_t> values, std::vector<int64_t> shape) {
    fields_.drop(name);
    fields_.add_integers(name, std::move(values), std::move(shape));
  }
  QwenVlConfig config_;
  test::NamedTensors fields_;
};

TEST_F(FieldsErrors, the_case_itself_is_accepted) { EXPECT_EQ(refusal(), "accepted"); }

TEST_F(FieldsErrors, each_wrong_field_is_named) {
  replace("labels", {1, 2}, {1, 2});
  EXPECT_THAT(refusal(), testing::HasSubstr("labels"));
  replace("labels", {1, 2, 3, 4, 5, 999'999}, {1, 6});
  EXPECT_THAT(refusal(), testing::HasSubstr("labels"));
  fields_.drop("labels");
  EXPECT_EQ(refusal(), "accepted");
  replace("image_grid_thw", {1, 2, 6}, {1, 3});
  EXPECT_THAT(refusal(), testing::HasSubstr("pixel_values"));
  replace("image_grid_thw", {1, 2, 2}, {1, 3});
  EXPECT_THAT(refusal(), testing::HasSubstr("pixel_values"));
  replace("image_grid_thw", {2, 2, 2}, {1, 3});
  EXPECT_THAT(refusal(), testing::HasSubstr("image_grid_thw"));
  replace("image_grid_thw", {1, 8, 1}, {1, 3});
  EXPECT_THAT(refusal(), testing::HasSubstr("multiples of 2"));
  replace("image_grid_thw", {1, 1 << 30, 1 << 30}, {1, 3});
  EXPECT_THAT(refusal(), testing::HasSubstr("image_grid_thw"));
  replace("image_grid_thw", {1, 2, 4}, {1, 3});
  replace("input_ids", {1, 151652, 151655, 151653, 5, 6}, {1, 6});
  EXPECT_THAT(refusal(), testing::HasSubstr("expected 2"));
  replace("input_ids", {1, 2, 3, 4, 5, 6}, {1, 6});
  EXPECT_THAT(refusal(), testing::HasSubstr("place for 0 pictures"));
  replace("input_ids", {1, 2, 3, 4, 5, -6}, {1, 6});
  EXPECT_THAT(refusal(), testing::HasSubstr("input_ids"));
}

TEST_F(FieldsErrors, a_pixel_that_is_not_finite_is_told_by_its_place) {
  const int64_t columns = config_.vision.patch_columns();
  std::vector<float> pixels(static_cast<size_t>(8 * columns));
  pixels[5] = std::numeric_limits<float>::quiet_NaN();
  fields_.drop("pixel_values");
  fields_.add_floats("pixel_values", pixels, {8, columns});
  EXPECT_EQ(refusal(), "field pixel_values: expected finite values, got nan at 5");
}

TEST_F(FieldsErrors, packed_rows_need_starts_that_cover_them_and_unknown_fields_are_refused) {
  fields_.add_integers("cu_seqlens", {0, 3, 2, 6});
  EXPECT_THAT(refusal(), testing::HasSubstr("cu_seqlens"));
  replace("cu_seqlens", {0, 5, 6}, {3});
  EXPECT_EQ(refusal(), "accepted");
  fields_.add_integers("images_per_sequence", {0, 1});
  EXPECT_THAT(refusal(), testing::HasSubstr("images_per_sequence"));
  fields_.drop("images_per_sequence");
  fields_.add_integers("audio_values", {0, 1});
  EXPECT_THAT(refusal(), testing::HasSubstr("audio_values"));
}

TEST_F(FieldsErrors, cutting_a_qwen3_video_takes_all_its_groups) {
  QwenVlConfig config = test::small_model(Family::kQwen3Vl);
  test::NamedTensors fields;
  fields.add_integers("input_ids", {1, 7, 151652, 151656, 151653, 8, 151652, 151656, 151653, 5});
  fields.add_integers("video_grid_thw", {2, 2, 2}, {1, 3});
  fields.add_floats("pixel_values_videos", std::vector<float>(static_cast<size_t>(8 * config.vision.patch_columns())),
                    {8, config.vision.patch_columns()});
  auto sequences = read_fields(fields.view(), config);
  ASSERT_EQ(sequences.size(), 1u);
  EXPECT_EQ(sequences[0].blocks, (std::vector<Rows>{{2, 9}}));
  cut(sequences[0], 7);
  EXPECT_EQ(sequences[0].rows(), 2);
  EXPECT_TRUE(sequences[0].vision.empty());
}

}  // namespace
}  // namespace lf::qwen_vl
