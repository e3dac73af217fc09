// Pictures that are not what they say: refused by name, from the header where the header tells, within small memory.
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include "data/media/media_reader.h"
#include "scratch.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMaxPixels = 100'000'000;

// The reason for which both probing and decoding, or decoding alone, refuse the file; empty: neither does.
std::string refusal(const MediaReader& reader, const std::string& path, bool probe) {
  try {
    if (probe) {
      reader.probe(path, LF_MEDIA_IMAGE);
    } else {
      lf_tensor tensor = reader.decode_image(path);
      sdk::release(tensor);
    }
    return "";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_DATA) << failure.what();
    return failure.what();
  }
}

class BadPicture : public testing::Test {
 protected:
  void expect_refused(const std::string& name, std::string_view bytes, const std::string& reason, bool by_header) {
    const std::filesystem::path path = scratch_.write(name, bytes);
    for (const bool probe : {true, false}) {
      if (probe && !by_header) continue;
      EXPECT_THAT(refusal(reader_, name, probe), AllOf(HasSubstr(path.string() + ": "), HasSubstr(reason)));
    }
  }

  static std::string fixture(const std::string& name) { return read_file(media_folder() / name); }

  Scratch scratch_;
  MediaReader reader_{scratch_.folder(), kMaxPixels};
};

void put_big(std::string& bytes, size_t at, uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(value >> (8 * (count - 1 - i)));
}

std::string png_of_size(uint32_t width, uint32_t height) {
  std::string png = read_file(media_folder() / "png_rgb.png");
  put_big(png, 16, width, 4);
  put_big(png, 20, height, 4);
  put_big(png, 29, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17)), 4);
  return png;
}

std::string jpeg_of_size(uint32_t width, uint32_t height) {
  std::string jpeg = read_file(media_folder() / "jpeg_420.jpg");
  const size_t frame = jpeg.find("\xFF\xC0");
  put_big(jpeg, frame + 5, height, 2);
  put_big(jpeg, frame + 7, width, 2);
  return jpeg;
}

TEST_F(BadPicture, a_png_of_two_kilobytes_that_declares_50000_x_50000_is_refused_by_its_header) {
  expect_refused("bomb.png", png_of_size(50'000, 50'000), "50000 x 50000", true);
}

TEST_F(BadPicture, a_jpeg_of_a_kilobyte_that_declares_65535_x_65535_is_refused_by_its_header) {
  expect_refused("bomb.jpg", jpeg_of_size(65'535, 65'535), "65535 x 65535", true);
}

TEST_F(BadPicture, sizes_within_the_limit_that_the_file_is_too_short_for_are_refused_by_the_header) {
  expect_refused("short.png", png_of_size(9'000, 9'000), "too few for 9000 x 9000", true);
  expect_refused("short.jpg", jpeg_of_size(9'000, 9'000), "too few for 9000 x 9000", true);
}

TEST_F(BadPicture, the_limit_is_the_jobs) {
  const MediaReader strict(media_folder(), 37 * 23 - 1), exact(media_folder(), 37 * 23);
  for (const char* name : {"jpeg_420.jpg", "png_rgb.png", "webp_lossy.webp", "webp_animated.webp"}) {
    EXPECT_THAT(refusal(strict, name, true), HasSubstr("expected at most 850 (data.max_decoded_pixels)")) << name;
    EXPECT_EQ(refusal(exact, name, true), "") << name;
  }
}

TEST_F(BadPicture, refusing_a_bomb_allocates_next_to_nothing) {
  scratch_.write("bomb.png", png_of_size(50'000, 50'000));
  scratch_.write("bomb.jpg", jpeg_of_size(65'535, 65'535));
  scratch_.write("short.jpg", jpeg_of_size(9'000, 9'000));
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (const char* name : {"bomb.png", "bomb.jpg", "short.jpg"}) EXPECT_NE(refusal(reader_, name, false), "");
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 * 1024);  // KiB
}

TEST_F(BadPicture, every_truncation_is_refused) {
  for (const char* name : {"jpeg_420.jpg", "jpeg_progressive.jpg", "png_rgb.png", "png_rgba_interlaced.png",
                           "webp_lossy.webp", "webp_lossless_alpha.webp", "webp_animated.webp"}) {
    const std::string whole = fixture(name);
    // A PNG is whole once its pixels are there: the 12 bytes of IEND add nothing.
    const size_t least = std::string_view(name).ends_with(".png") ? 12 + 4 : 1;
    // Of an animation only the first frame counts.
    const size_t most = std::string_view(name) == "webp_animated.webp" ? whole.size() / 3 : whole.size() - least;
    for (size_t size = 1; size <= most; size += 1 + size / 50) {
      scratch_.write(name, std::string_view(whole).substr(0, size));
      ASSERT_THAT(refusal(reader_, name, false), HasSubstr(name)) << "at " << size << " of " << whole.size();
    }
  }
}

TEST_F(BadPicture, a_jpeg_without_its_end_marker_is_truncated) {
  const std::string whole = fixture("jpeg_420.jpg");
  expect_refused("cut.jpg", std::string_view(whole).substr(0, whole.size() - 2), "ends early", false);
}

TEST_F(BadPicture, what_is_no_regular_file_is_refused_at_once) {
  std::filesystem::create_directory(scratch_.folder() / "folder.png");
  ASSERT_EQ(::mkfifo((scratch_.folder() / "pipe.png").c_str(), 0600), 0);
  EXPECT_THAT(refusal(reader_, "folder.png", true), HasSubstr("folder.png: not a regular file"));
  EXPECT_THAT(refusal(reader_, "pipe.png", false), HasSubstr("pipe.png: not a regular file"));
  EXPECT_THAT(refusal(reader_, "/dev/zero", true), HasSubstr("/dev/zero: not a regular file"));
}

TEST_F(BadPicture, an_empty_or_a_missing_file_is_named) {
  expect_refused("empty.png", "", "the file is empty", true);
  EXPECT_THAT(refusal(reader_, "absent.png", true), HasSubstr("absent.png: No such file"));
}

TEST_F(BadPicture, other_formats_are_named_and_their_bytes_are_not_shown) {
  const std::pair<std::string, const char*> cases[] = {
      {std::string("GIF89a\1\0\1\0", 10), "it is a GIF"},
      {"<html><body>404</body></html>", "it is HTML, SVG or other XML"},
      {"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS: fetch the files with git lfs pull"},
      {std::string("\0\0\0\x1c"
                   "ftypavif",
                   12),
       "it is HEIC, AVIF or a video"},
      {"root:x:0:0:root:/root:/bin/bash\n", "it is of another kind"},
      {"RI", "it is of another kind"}};
  for (const auto& [bytes, kind] : cases) {
    expect_refused("picture.png", bytes, std::string("not a JPEG, PNG or WebP picture: by its first bytes ") + kind,
                   true);
    EXPECT_THAT(refusal(reader_, "picture.png", true), testing::Not(HasSubstr("root")));
    EXPECT_THAT(refusal(reader_, "picture.png", true), testing::Not(HasSubstr("72 6f")));
  }
}

TEST_F(BadPicture, a_polyglot_is_only_what_its_first_bytes_say) {
  // A PNG signature before a page, and a page after a good JPEG.
  expect_refused("page.png", std::string("\x89PNG\r\n\x1a\n") + "<script>alert(1)</script>  padding padding padding",
                 "does not start with its header", true);
  scratch_.write("tail.jpg", fixture("jpeg_420.jpg") + "PK\3\4<html>" + fixture("png_rgb.png"));
  lf_tensor tensor = reader_.decode_image("tail.jpg");
  EXPECT_EQ(tensor.shape[1], 37);
  sdk::release(tensor);
}

TEST_F(BadPicture, headers_that_contradict_themselves_are_refused) {
  expect_refused("zero.png", png_of_size(0, 10), "makes no sense", true);
  expect_refused("zero.jpg", jpeg_of_size(10, 0), "zero width or height", true);
  std::string twelve = fixture("jpeg_420.jpg");
  twelve[twelve.find("\xFF\xC0") + 4] = 12;
  expect_refused("twelve.jpg", twelve, "12 bits", true);
  std::string lossless = fixture("jpeg_420.jpg");
  lossless[lossless.find("\xFF\xC0") + 1] = '\xC3';
  expect_refused("lossless.jpg", lossless, "lossless", true);
  std::string crc = fixture("png_rgb.png");
  crc[30] ^= 1;
  expect_refused("crc.png", crc, "cannot decode the PNG", false);
}

TEST_F(BadPicture, a_jpeg_with_thousands_of_scans_is_refused) {
  const std::string whole = fixture("jpeg_progressive.jpg");
  const size_t scan = whole.find("\xFF\xDA"), next = whole.find("\xFF\xC4", scan);
  ASSERT_NE(next, whole.npos);
  std::string many = whole.substr(0, scan);
  const std::string one = whole.substr(scan, next - scan);
  for (int i = 0; i < 2000; ++i) many += one;
  expect_refused("scans.jpg", many + whole.substr(next), "more than 100 scans", false);
}

// Fuzzing in small: every outcome is fine but a crash, a hang or another kind of failure.
TEST_F(BadPicture, flipped_bits_never_do_more_than_spoil_the_picture) {
  std::mt19937 dice(5);
  int refused = 0, decoded = 0;
  for (const char* name :
       {"jpeg_420.jpg", "jpeg_progressive.jpg", "jpeg_exif6.jpg", "jpeg_cmyk.jpg", "png_rgba16.png",
        "png_palette4_trns.png", "png_exif6.png", "webp_lossy_alpha.webp", "webp_animated.webp", "webp_exif8.webp"}) {
    const std::string whole = fixture(name);
    for (int i = 0; i < 60; ++i) {
      std::string bytes = whole;
      for (int flip = 0; flip < 3; ++flip)
        bytes[dice() % std::min<size_t>(bytes.size(), 600)] ^= static_cast<char>(1 << dice() % 8);
      scratch_.write(name, bytes);
      ++(refusal(reader_, name, false).empty() ? decoded : refused);
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(decoded, 50);
}

}  // namespace
}  // namespace lf
