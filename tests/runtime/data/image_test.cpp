// Pictures against Pillow's pixels, recorded by tests/fixtures/media/make_media.py.
#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/media/exif.h"
#include "data/media/media_reader.h"
#include "scratch.h"

namespace lf {
namespace {

struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

Picture read_ppm(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::istringstream text(bytes);
  std::string magic;
  Picture out;
  int most = 0;
  text >> magic >> out.width >> out.height >> most;
  const size_t count = static_cast<size_t>(out.width * out.height * 3);
  EXPECT_EQ(magic, "P6");
  EXPECT_GE(bytes.size(), count);
  out.rgb.assign(bytes.end() - static_cast<std::ptrdiff_t>(count), bytes.end());
  return out;
}

Picture decode(const MediaReader& reader, const std::string& path) {
  lf_tensor tensor = reader.decode_image(path);
  EXPECT_EQ(tensor.dtype, LF_DTYPE_U8);
  EXPECT_EQ(tensor.ndim, 3);
  EXPECT_EQ(tensor.shape[2], 3);
  Picture out{.width = tensor.shape[1], .height = tensor.shape[0], .rgb = {}};
  const auto* bytes = static_cast<const uint8_t*>(tensor.data);
  out.rgb.assign(bytes, bytes + out.width * out.height * 3);
  sdk::release(tensor);
  return out;
}

std::vector<std::string> pictures() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(media_folder()))
    if (entry.path().extension() == ".ppm") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class AgainstPillow : public testing::TestWithParam<std::string> {};

TEST_P(AgainstPillow, a_picture_has_the_same_pixels) {
  const Picture expected = read_ppm(media_folder() / (GetParam() + ".ppm"));
  const Picture actual = decode(MediaReader(media_folder(), 1'000'000), GetParam());
  ASSERT_EQ(actual.width, expected.width);
  ASSERT_EQ(actual.height, expected.height);
  int worst = 0;
  for (size_t i = 0; i < expected.rgb.size(); ++i) worst = std::max(worst, std::abs(actual.rgb[i] - expected.rgb[i]));
  EXPECT_EQ(worst, 0);
}

TEST_P(AgainstPillow, the_header_alone_tells_the_upright_size) {
  const Picture expected = read_ppm(media_folder() / (GetParam() + ".ppm"));
  const lf_media_info info = MediaReader(media_folder(), 1'000'000).probe(GetParam(), LF_MEDIA_IMAGE);
  EXPECT_EQ(info.width, expected.width);
  EXPECT_EQ(info.height, expected.height);
  EXPECT_EQ(info.frames, 1);
  EXPECT_EQ(info.kind, LF_MEDIA_IMAGE);
}

INSTANTIATE_TEST_SUITE_P(pictures, AgainstPillow, testing::ValuesIn(pictures()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST(Pictures, the_folder_holds_every_kind) { EXPECT_GE(pictures().size(), 35u); }

TEST(Pictures, a_relative_path_starts_at_the_data_sets_folder) {
  const MediaReader elsewhere(media_folder().parent_path(), 1'000'000);
  EXPECT_EQ(elsewhere.probe("media/png_rgb.png", LF_MEDIA_IMAGE).width, 37);
  EXPECT_EQ(elsewhere.probe((media_folder() / "png_rgb.png").string(), LF_MEDIA_IMAGE).width, 37);
}

TEST(Pictures, the_name_does_not_decide_the_format) {
  const Scratch scratch;
  scratch.write("picture.jpg", read_file(media_folder() / "webp_lossless.webp"));
  EXPECT_EQ(decode(MediaReader(scratch.folder(), 1'000'000), "picture.jpg").rgb,
            read_ppm(media_folder() / "webp_lossless.webp.ppm").rgb);
}

TEST(Pictures, turning_upright_is_undone_by_the_inverse_orientation) {
  constexpr int kWidth = 5, kHeight = 3, kInverse[] = {0, 1, 2, 3, 4, 5, 8, 7, 6};
  std::vector<uint8_t> stored(kWidth * kHeight * 3), turned(stored.size()), back(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<uint8_t>(i);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    turn_upright(stored.data(), kWidth, kHeight, orientation, turned.data());
    const bool swapped = swaps_sides(orientation);
    turn_upright(turned.data(), swapped ? kHeight : kWidth, swapped ? kWidth : kHeight, kInverse[orientation],
                 back.data());
    EXPECT_EQ(back, stored) << orientation;
  }
}

TEST(MediaExtension, a_plugin_reaches_the_reader_through_the_host) {
  MediaReader reader(media_folder(), 1'000'000);
  Host host;
  reader.offer_to(host);
  const lf_host* table = host.table();
  const auto* media = static_cast<const lf_media_host*>(table->get_extension(table, sdk::str(LF_MEDIA_EXTENSION)));
  ASSERT_TRUE(LF_HAS(media, probe) && LF_HAS(media, decode_image) && LF_HAS(media, decode_video));
  lf_err err = sdk::make_err();
  lf_media_info info{};
  ASSERT_EQ(media->probe(table, sdk::str("jpeg_exif6.jpg"), LF_MEDIA_IMAGE, &info, &err), LF_OK) << err.message;
  EXPECT_EQ(info.width, 23);
  lf_tensor tensor{};
  ASSERT_EQ(media->decode_image(table, sdk::str("jpeg_exif6.jpg"), &tensor, &err), LF_OK) << err.message;
  EXPECT_EQ(tensor.shape[1], 23);
  sdk::release(tensor);
  EXPECT_EQ(media->decode_image(table, sdk::str("absent.jpg"), &tensor, &err), LF_E_DATA);
  EXPECT_THAT(err.message, testing::HasSubstr("absent.jpg: No such file"));
}

}  // namespace
}  // namespace lf
