#include "media/tiles.h"

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
