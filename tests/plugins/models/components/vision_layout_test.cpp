#include "components/vision_layout.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lf::components {
namespace {

using testing::ElementsAre;

constexpr int64_t kMerge = 2;

TEST(PatchPositions, run_through_merge_blocks) {
  const std::vector<PatchGrid> grids = {{1, 2, 4}};
  const auto positions = patch_positions(grids, kMerge);
  EXPECT_THAT(std::vector<int64_t>(positions.begin(), positions.begin() + 8), ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(std::vector<int64_t>(positions.begin() + 8, positions.end()), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
}

TEST(PatchPositions, repeat_for_every_frame_of_a_video) {
  const std::vector<PatchGrid> video = {{3, 2, 2}}, one = {{1, 2, 2}};
  const auto all = patch_positions(video, kMerge), single = patch_positions(one, kMerge);
  for (size_t axis = 0; axis < 2; ++axis)
    for (size_t frame = 0; frame < 3; ++frame)
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(all[axis * 12 + frame * 4 + i], single[axis * 4 + i]);
}

TEST(FrameStarts, make_every_frame_a_segment) {
  const std::vector<PatchGrid> grids = {{1, 4, 6}, {2, 2, 2}};
  EXPECT_THAT(frame_starts(grids), ElementsAre(0, 24, 28, 32));
}

TEST(Windows, hold_each_token_once_and_only_neighbours) {
  for (const auto& grids :
       std::vector<std::vector<PatchGrid>>{{{1, 4, 6}}, {{1, 16, 16}}, {{2, 6, 10}, {1, 2, 2}, {3, 18, 4}}, {}}) {
    constexpr int64_t kWindow = 4;
    const Windows cut = windows(grids, kMerge, kWindow);
    const auto positions = patch_positions(grids, kMerge);
    const int64_t patches = static_cast<int64_t>(positions.size()) / 2;
    ASSERT_EQ(static_cast<int64_t>(cut.token_order.size()) * kMerge * kMerge, patches);
    EXPECT_EQ(std::set<int64_t>(cut.token_order.begin(), cut.token_order.end()).size(), cut.token_order.size());
    EXPECT_EQ(cut.starts.back(), patches);
    const auto frames = frame_starts(grids);
    const auto frame_of = [&](int64_t patch) {
      return std::upper_bound(frames.begin(), frames.end(), patch) - frames.begin();
    };
    // Two tokens are in one window exactly where frame, row / 4 and column / 4 agree.
    std::map<std::array<int64_t, 3>, int64_t> window_of_place;
    for (size_t w = 0; w + 1 < cut.starts.size(); ++w) {
      EXPECT_LT(cut.starts[w], cut.starts[w + 1]);
      for (int64_t at = cut.starts[w] / 4; at < cut.starts[w + 1] / 4; ++at) {
        const int64_t patch = cut.token_order[static_cast<size_t>(at)] * 4;
        const std::array<int64_t, 3> place = {frame_of(patch), positions[static_cast<size_t>(patch)] / kMerge / kWindow,
                                              positions[static_cast<size_t>(patches + patch)] / kMerge / kWindow};
        EXPECT_EQ(window_of_place.emplace(place, static_cast<int64_t>(w)).first->second, static_cast<int64_t>(w));
      }
    }
    EXPECT_EQ(window_of_place.size() + 1, cut.starts.size());
  }
}

// A table that grows evenly by row and column is met exactly by bilinear taps, corners included.
TEST(BilinearTaps, meet_an_even_table_exactly_with_aligned_corners) {
  const std::vector<PatchGrid> grids = {{1, 6, 10}, {2, 2, 4}};
  constexpr int64_t kSide = 5;
  const Taps taps = bilinear_taps(grids, kMerge, kSide);
  const auto positions = patch_positions(grids, kMerge);
  const size_t patches = positions.size() / 2;
  ASSERT_EQ(taps.row.size(), patches * 4);
  for (size_t i = 0; i < patches; ++i) {
    const bool first = i < 60;
    const double height = first ? 6 : 2, width = first ? 10 : 4;
    double row = 0, column = 0, total = 0;
    for (size_t t = 0; t < 4; ++t) {
      const int64_t at = taps.row[i * 4 + t];
      ASSERT_LT(at, kSide * kSide);
      row += taps.weight[i * 4 + t] * static_cast<double>(at / kSide);
      column += taps.weight[i * 4 + t] * static_cast<double>(at % kSide);
      total += taps.weight[i * 4 + t];
    }
    EXPECT_NEAR(total, 1, 1e-6);
    EXPECT_NEAR(row, static_cast<double>(positions[i]) * (kSide - 1) / (height - 1), 1e-5);
    EXPECT_NEAR(column, static_cast<double>(positions[patches + i]) * (kSide - 1) / (width - 1), 1e-5);
  }
}

}  // namespace
}  // namespace lf::components
