// Directories with pictures in their tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pusht.h"
#include "refusal.h"
#include "tables.h"

namespace lf::robot {
namespace {

using test::refusal;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kEmbeddedCamera = "observation.images.top";

class EmbeddedTest : public testing::Test {
 protected:
  std::vector<std::vector<uint8_t>> views(const std::filesystem::path& directory, int64_t frame) {
    const EpisodeReader reader(host_.host.table(), media_, directory.string(), test::small_shape(),
                               test::plain_options());
    return reader.views(reader.moment(frame));
  }
  // The table's struct column with other bytes in one row.
  static void replace_picture(const std::filesystem::path& file, int64_t row, const std::string* bytes) {
    const auto table = test::read_table(file);
    const auto& old = static_cast<const arrow::StructArray&>(*table->GetColumnByName(kEmbeddedCamera)->chunk(0));
    const auto& pictures = static_cast<const arrow::BinaryArray&>(*old.GetFieldByName("bytes"));
    arrow::BinaryBuilder builder;
    for (int64_t i = 0; i < pictures.length(); ++i)
      test::expect_ok(i != row           ? builder.Append(pictures.GetView(i))
                      : bytes != nullptr ? builder.Append(*bytes)
                                         : builder.AppendNull());
    const auto made = test::taken(arrow::StructArray::Make({test::taken(builder.Finish()), old.GetFieldByName("path")},
                                                           std::vector<std::string>{"bytes", "path"}));
    test::write_table(file, test::with_column(table, kEmbeddedCamera, made), 7);
  }

  test::DecodingHost host_;
  const family::MediaAccess media_{host_.host.table()};
};

TEST_F(EmbeddedTest, pictures_are_those_that_videos_of_the_same_run_show) {
  for (const int64_t frame : {0, 11, 12, 23}) {
    const auto embedded = views(test::robot_fixture("pusht_embedded"), frame);
    const auto videos = views(test::robot_fixture("pusht"), frame < 12 ? frame : frame + 12);
    ASSERT_EQ(embedded.size(), 2u);
    for (size_t view = 0; view < 2; ++view) {
      ASSERT_EQ(embedded[view].size(), videos[view].size());
      double apart = 0;
      for (size_t i = 0; i < videos[view].size(); ++i) apart += std::abs(embedded[view][i] - videos[view][i]);
      EXPECT_LT(apart / static_cast<double>(videos[view].size()), 4) << "frame " << frame;  // the videos are lossy
      EXPECT_GT(apart, 0);
    }
  }
}

TEST_F(EmbeddedTest, any_row_of_any_row_group_is_found) {
  const test::SpoiltDirectory copy("pusht_embedded");
  test::write_table(copy.data(), test::read_table(copy.data()), 5);
  for (int64_t frame = 0; frame < 24; ++frame)
    EXPECT_EQ(views(copy.path(), frame), views(test::robot_fixture("pusht_embedded"), frame));
}

TEST_F(EmbeddedTest, a_picture_that_is_absent_broken_or_of_another_size_spoils_its_own_frame_only) {
  const std::string none, broken = "\x89PNG\r\n\x1a\nand no more";
  std::ifstream file(std::filesystem::path(LF_SOURCE_DIR) / "tests/fixtures/media/png_rgb.png", std::ios::binary);
  const std::string other_size{std::istreambuf_iterator<char>(file), {}};
  struct Case {
    const std::string* bytes;
    const char* reason;
  };
  for (const auto& [bytes, reason] :
       {Case{nullptr, "expected a picture in row 5, got null"}, Case{&none, "observation.images.top of frame 5: "},
        Case{&broken, "observation.images.top of frame 5: "},
        Case{&other_size, "observation.images.top of frame 5: expected the 96 x 96 pixels of meta/info.json, got "}}) {
    const test::SpoiltDirectory spoilt("pusht_embedded");
    replace_picture(spoilt.data(), 5, bytes);
    const std::string refused = refusal([&] { views(spoilt.path(), 5); });
    EXPECT_THAT(refused, AllOf(HasSubstr("data: " + spoilt.data().string()), HasSubstr(reason)));
    EXPECT_THAT(refused, testing::Not(HasSubstr("/proc/self")));
    EXPECT_EQ(views(spoilt.path(), 6), views(test::robot_fixture("pusht_embedded"), 6));
  }
}

}  // namespace
}  // namespace lf::robot
