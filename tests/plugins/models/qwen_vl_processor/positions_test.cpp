#include "qwen_vl/processor/positions.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lf/plugin_sdk/guard.hpp"
#include "models.h"

namespace lf::qwen_vl {
namespace {

using testing::ElementsAre;

VisionInput image(int64_t height, int64_t width) {
  VisionInput input;
  input.height = height;
  input.width = width;
  return input;
}
VisionInput video(int64_t groups, int64_t height, int64_t width, float seconds = 1) {
  VisionInput input = image(height, width);
  input.video = true;
  input.groups = groups;
  input.seconds_per_group = seconds;
  return input;
}

// Position numbers of `ids` as three rows.
std::vector<std::vector<int64_t>> positions(const std::vector<int64_t>& ids, const std::vector<VisionInput>& vision,
                                            const QwenVlConfig& config) {
  std::vector<int64_t> out(3 * ids.size(), -1);
  write_positions(static_cast<int64_t>(ids.size()), visual_runs(ids, vision, config), out.data(),
                  static_cast<int64_t>(ids.size()));
  std::vector<std::vector<int64_t>> rows;
  for (size_t axis = 0; axis < 3; ++axis)
    rows.emplace_back(out.begin() + static_cast<std::ptrdiff_t>(axis * ids.size()),
                      out.begin() + static_cast<std::ptrdiff_t>((axis + 1) * ids.size()));
  return rows;
}

std::vector<int64_t> repeat(int64_t id, size_t n) { return std::vector<int64_t>(n, id); }
std::vector<int64_t> join(std::initializer_list<std::vector<int64_t>> parts) {
  std::vector<int64_t> out;
  for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}
constexpr int64_t kImage = 151655, kVideo = 151656, kStart = 151652, kEnd = 151653;

TEST(Positions, text_counts_up_on_all_axes) {
  const auto rows = positions({5, 6, 7}, {}, test::small_model(Family::kQwen2Vl));
  for (const auto& row : rows) EXPECT_THAT(row, ElementsAre(0, 1, 2));
}

TEST(Positions, an_image_spans_a_plane_and_text_goes_on_after_its_longest_side) {
  const auto rows = positions(join({{1, kStart}, repeat(kImage, 6), {kEnd, 9}}), {image(4, 6)},
                              test::small_model(Family::kQwen2_5Vl));
  EXPECT_THAT(rows[0], ElementsAre(0, 1, 2, 2, 2, 2, 2, 2, 5, 6));
  EXPECT_THAT(rows[1], ElementsAre(0, 1, 2, 2, 2, 3, 3, 3, 5, 6));
  EXPECT_THAT(rows[2], ElementsAre(0, 1, 2, 3, 4, 2, 3, 4, 5, 6));
}

TEST(Positions, time_of_qwen2_5_is_in_seconds_cut_off_after_the_product) {
  const QwenVlConfig config = test::small_model(Family::kQwen2_5Vl);  // 2 tokens per second
  const auto half = positions(join({repeat(kVideo, 4), {9}}), {video(4, 2, 2, 0.25f)}, config);
  EXPECT_THAT(half[0], ElementsAre(0, 0, 1, 1, 2));
  const auto long_ones = positions(join({repeat(kVideo, 3), {9}}), {video(3, 2, 2, 2.5f)}, config);
  EXPECT_THAT(long_ones[0], ElementsAre(0, 5, 10, 11));
  // An image has no time, whatever the seconds of the video beside it.
  const auto both = positions(join({repeat(kImage, 2), repeat(kVideo, 2)}), {image(2, 4), video(2, 2, 2, 4)}, config);
  EXPECT_THAT(both[0], ElementsAre(0, 0, 2, 10));
}

TEST(Positions, time_of_qwen2_is_the_number_of_the_frame) {
  const auto rows =
      positions(join({repeat(kVideo, 3), {9}}), {video(3, 2, 2, 2.5f)}, test::small_model(Family::kQwen2Vl));
  EXPECT_THAT(rows[0], ElementsAre(0, 1, 2, 3));
}

TEST(Positions, groups_of_a_qwen3_video_are_planes_of_their_own_between_stamps) {
  const auto rows = positions(join({{7, kStart}, repeat(kVideo, 2), {kEnd, 8, kStart}, repeat(kVideo, 2), {kEnd}}),
                              {video(2, 2, 4)}, test::small_model(Family::kQwen3Vl));
  EXPECT_THAT(rows[0], ElementsAre(0, 1, 2, 2, 4, 5, 6, 7, 7, 9));
  EXPECT_THAT(rows[2], ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(Positions, neighbouring_inputs_without_markers_are_told_apart) {
  const auto runs = visual_runs(repeat(kImage, 5), std::vector<VisionInput>{image(2, 4), image(2, 6)},
                                test::small_model(Family::kQwen2Vl));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1].begin, 2);
  EXPECT_EQ(runs[1].end(), 5);
}

TEST(Positions, placeholders_that_do_not_match_their_inputs_are_refused_with_both_numbers) {
  const auto message = [](const std::vector<int64_t>& ids, const std::vector<VisionInput>& vision, Family family) {
    try {
      visual_runs(ids, vision, test::small_model(family));
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), LF_E_DATA);
      return std::string(failure.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message(join({{1}, repeat(kImage, 3), {2}}), {image(4, 4)}, Family::kQwen2Vl),
              testing::AllOf(testing::HasSubstr("expected 4"), testing::HasSubstr("got 3")));
  EXPECT_THAT(message(repeat(kImage, 3), {image(4, 4)}, Family::kQwen2Vl), testing::HasSubstr("got 3"));
  EXPECT_THAT(message(repeat(kImage, 5), {image(4, 4)}, Family::kQwen2Vl), testing::HasSubstr("row 4"));
  EXPECT_THAT(message({1, 2}, {image(4, 4)}, Family::kQwen2Vl), testing::HasSubstr("place for 0"));
  EXPECT_THAT(message(repeat(kVideo, 4), {image(4, 4)}, Family::kQwen2Vl), testing::HasSubstr("is an image"));
  EXPECT_THAT(message(join({repeat(kVideo, 4), {1}, repeat(kVideo, 3)}), {video(2, 4, 4)}, Family::kQwen3Vl),
              testing::HasSubstr("got 3"));
  EXPECT_THAT(message(repeat(kVideo, 2), {video(2, 2, 2, 1e30f)}, Family::kQwen2_5Vl), testing::HasSubstr("seconds"));
}

TEST(Positions, no_two_rows_of_one_sequence_share_all_three_numbers) {
  for (const Family family : {Family::kQwen2Vl, Family::kQwen2_5Vl, Family::kQwen3Vl}) {
    const QwenVlConfig config = test::small_model(family);
    std::vector<VisionInput> vision{image(4, 6), video(3, 4, 2, 0.5f), image(2, 2)};
    auto ids = join({{1, 2}, repeat(kImage, 6), {3}});
    if (is_qwen3(family)) {
      for (int i = 0; i < 3; ++i) ids = join({ids, {4}, repeat(kVideo, 2)});
    } else {
      ids = join({ids, repeat(kVideo, 6)});
    }
    ids = join({ids, repeat(kImage, 1), {5, 6}});
    const auto rows = positions(ids, vision, config);
    std::vector<std::array<int64_t, 3>> seen;
    for (size_t i = 0; i < ids.size(); ++i) seen.push_back({rows[0][i], rows[1][i], rows[2][i]});
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
    for (const auto& row : rows) EXPECT_GE(*std::min_element(row.begin(), row.end()), 0);
  }
}

}  // namespace
}  // namespace lf::qwen_vl
