#include "media/tiles.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "media/frames.h"
#include "recorded.h"

namespace lf::media {
namespace {

nlohmann::json recorded() { return nlohmann::json::parse(std::ifstream(test::processor_fixture("internvl.json"))); }

TEST(Tiles, grids_are_the_references) {
  const nlohmann::json grids = recorded()["grids"];
  ASSERT_GT(grids.size(), 1000u);
  for (const auto& row : grids)
    EXPECT_EQ(closest_grid({row[1], row[0]}, row[2], row[3], row[4]), (TileGrid{row[5], row[6]})) << row.dump();
}

// The reference's own way: a list of all grids by their size, gone through in order.
TileGrid listed_grid(Size picture, int64_t tile, int64_t least, int64_t most) {
  std::vector<TileGrid> grids;
  for (int64_t columns = 1; columns <= most; ++columns)
    for (int64_t rows = 1; rows <= most; ++rows)
      if (columns * rows >= least && columns * rows <= most) grids.push_back({columns, rows});
  std::stable_sort(grids.begin(), grids.end(), [](TileGrid a, TileGrid b) { return a.count() < b.count(); });
  const double ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  double best_difference = 1e300;
  TileGrid best;
  for (const TileGrid& grid : grids) {
    const double difference = std::abs(ratio - static_cast<double>(grid.columns) / static_cast<double>(grid.rows));
    const bool fills =
        static_cast<double>(picture.width * picture.height) > 0.5 * static_cast<double>(tile * tile * grid.count());
    if (difference > best_difference || (difference == best_difference && !fills)) continue;
    best_difference = difference;
    best = grid;
  }
  return best;
}

TEST(Tiles, grids_of_many_tiles_are_those_of_a_list_of_all) {
  for (const auto& [least, most] : {std::pair<int64_t, int64_t>{1, 200}, {150, 150}, {30, 97}, {5, 4}, {1, 1}})
    for (const Size picture : {Size{448, 448}, {4480, 4480}, {1, 1}, {1, 30000}, {30000, 1}, {1000, 1250}, {777, 3333}})
      EXPECT_EQ(closest_grid(picture, 448, least, most), listed_grid(picture, 448, least, most))
          << picture.width << " x " << picture.height << ", " << least << " to " << most;
}

TEST(Tiles, frames_of_a_video_are_the_references) {
  const nlohmann::json videos = recorded()["frames"];
  for (const auto& row : videos) {
    std::vector<int64_t> frames(row.begin() + 2, row.end());
    EXPECT_EQ(sample_frames_centred(row[0], row[1]), frames) << row.dump();
  }
}

TEST(Tiles, of_a_video_shorter_than_what_is_wanted_every_frame_is_looked_at_once) {
  EXPECT_EQ(sample_frames_centred(3, 8), (std::vector<int64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace lf::media
