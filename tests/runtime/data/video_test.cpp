// Videos whose frame i is grey level 16 + 3 i with a white square in its upper left corner, see make_media.py.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/media/media_reader.h"
#include "data/video/frame_times.h"
#include "data/video/index_cache.h"
#include "scratch.h"

namespace lf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kWidth = 48, kHeight = 32, kSquare = 16, kWhite = 235;

struct Clip {
  int64_t frames = 0, height = 0, width = 0;
  std::vector<uint8_t> rgb;
  const uint8_t* at(int64_t frame, int64_t y, int64_t x) const { return &rgb[((frame * height + y) * width + x) * 3]; }
  // Mean of 16 x 8 pixels from (y, x): what noise leaves.
  double mean(int64_t frame, int64_t y, int64_t x, int channel) const {
    double sum = 0;
    for (int64_t i = 0; i < 128; ++i) sum += at(frame, y + i / 16, x + i % 16)[channel];
    return sum / 128;
  }
};

Clip decode(const MediaReader& reader, const std::string& path, const std::vector<int64_t>& frames) {
  lf_tensor tensor = reader.decode_video(path, frames);
  EXPECT_EQ(tensor.ndim, 4);
  EXPECT_EQ(tensor.dtype, LF_DTYPE_U8);
  EXPECT_EQ(tensor.shape[3], 3);
  Clip clip{.frames = tensor.shape[0], .height = tensor.shape[1], .width = tensor.shape[2], .rgb = {}};
  const auto* bytes = static_cast<const uint8_t*>(tensor.data);
  clip.rgb.assign(bytes, bytes + clip.frames * clip.height * clip.width * 3);
  sdk::release(tensor);
  return clip;
}

std::string refusal(const MediaReader& reader, const std::string& path, std::vector<int64_t> frames = {}) {
  try {
    reader.probe(path, LF_MEDIA_VIDEO);
    if (!frames.empty()) decode(reader, path, frames);
    return "";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_DATA) << failure.what();
    return failure.what();
  }
}

struct Case {
  std::string file;
  int64_t frames;
  double tolerance;  // of a grey level: 0 for lossless coding of full-range grey
  int64_t first = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.file; }

class Videos : public testing::TestWithParam<Case> {
 protected:
  void expect_frames(const std::vector<int64_t>& frames) {
    const Clip clip = decode(reader_, GetParam().file, frames);
    ASSERT_EQ(clip.frames, static_cast<int64_t>(frames.size()));
    ASSERT_EQ(clip.width, kWidth);
    ASSERT_EQ(clip.height, kHeight);
    for (int64_t i = 0; i < clip.frames; ++i) {
      const int64_t grey = 16 + 3 * (GetParam().first + frames[i]);
      for (int channel = 0; channel < 3; ++channel) {
        ASSERT_NEAR(clip.mean(i, 20, 30, channel), grey, GetParam().tolerance) << "frame " << frames[i];
        ASSERT_NEAR(clip.mean(i, 4, 0, channel), kWhite, 5 * GetParam().tolerance) << "frame " << frames[i];
      }
    }
  }

  MediaReader reader_{media_folder(), 1'000'000};
};

TEST_P(Videos, the_header_tells_size_frames_and_rate) {
  const lf_media_info info = reader_.probe(GetParam().file, LF_MEDIA_VIDEO);
  EXPECT_EQ(info.kind, LF_MEDIA_VIDEO);
  EXPECT_EQ(info.width, kWidth);
  EXPECT_EQ(info.height, kHeight);
  EXPECT_EQ(info.frames, GetParam().frames);
  EXPECT_NEAR(info.frames_per_second, 25, 1e-9);
  EXPECT_NEAR(info.seconds, GetParam().frames / 25.0, 1e-9);
}

TEST_P(Videos, every_frame_is_the_one_asked_for) {
  std::vector<int64_t> all(GetParam().frames);
  for (int64_t i = 0; i < GetParam().frames; ++i) all[i] = i;
  expect_frames(all);
}

TEST_P(Videos, any_single_frame_is_found) {
  for (int64_t i = 0; i < GetParam().frames; i += 7) expect_frames({i});
  expect_frames({GetParam().frames - 1});
}

TEST_P(Videos, any_ascending_choice_with_repeats_is_found) {
  std::mt19937 dice(9);
  for (int round = 0; round < 20; ++round) {
    std::vector<int64_t> frames(1 + dice() % 8);
    for (int64_t& frame : frames) frame = dice() % GetParam().frames;
    std::sort(frames.begin(), frames.end());
    expect_frames(frames);
  }
}

// vp8.webm is lossy.
INSTANTIATE_TEST_SUITE_P(containers, Videos,
                         testing::Values(Case{"h264.mp4", 60, 0}, Case{"h264_open_gop.mkv", 60, 0},
                                         Case{"h264.avi", 60, 0}, Case{"h264.ts", 60, 0},
                                         Case{"h264_fragmented.mp4", 60, 0}, Case{"vp9.webm", 60, 0},
                                         Case{"vp8.webm", 60, 1}, Case{"ffv1.mkv", 10, 0},
                                         Case{"h264_cut.mp4", 45, 0, 15}),
                         [](const auto& info) {
                           std::string name = info.param.file;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Video, packets_that_are_never_shown_are_no_frames) {
  const MediaReader reader(media_folder(), 1'000'000);
  ASSERT_EQ(reader.probe("vp8_hidden.webm", LF_MEDIA_VIDEO).frames, 60);  // in 62 packets
  std::vector<int64_t> all(60);
  for (int64_t i = 0; i < 60; ++i) all[i] = i;
  const Clip whole = decode(reader, "vp8_hidden.webm", all);
  const size_t bytes = whole.rgb.size() / 60;
  for (const int64_t i : {0, 1, 17, 30, 44, 59}) {
    const Clip one = decode(reader, "vp8_hidden.webm", {i});
    EXPECT_TRUE(std::equal(one.rgb.begin(), one.rgb.end(), whole.rgb.begin() + static_cast<int64_t>(i * bytes))) << i;
  }
}

TEST(Video, one_that_asks_to_be_turned_is_turned) {
  const MediaReader reader(media_folder(), 1'000'000);
  const lf_media_info info = reader.probe("h264_rotated.mp4", LF_MEDIA_VIDEO);
  EXPECT_EQ(info.width, kHeight);
  EXPECT_EQ(info.height, kWidth);
  const Clip clip = decode(reader, "h264_rotated.mp4", {5, 30});
  ASSERT_EQ(clip.width, kHeight);
  ASSERT_EQ(clip.height, kWidth);
  for (const int64_t frame : {0, 1}) {
    // As the ffmpeg program turns it: the square goes to the lower left.
    EXPECT_NEAR(clip.at(frame, kWidth - 3, 2)[0], kWhite, 1);
    EXPECT_NEAR(clip.at(frame, 2, 2)[0], frame == 0 ? 31 : 106, 1);
  }
}

TEST(Video, a_bogus_duration_changes_nothing) {
  std::string bytes = read_file(media_folder() / "h264.mp4");
  // Version 0 boxes: the duration follows at these distances from the box's name.
  for (const auto& [box, distance] : {std::pair{"mvhd", 20}, {"tkhd", 24}, {"mdhd", 20}}) {
    const size_t at = bytes.find(box);
    ASSERT_NE(at, bytes.npos);
    bytes.replace(at + distance, 4, "\x7F\xFF\xFF\xF0");
  }
  const Scratch scratch;
  scratch.write("bogus.mp4", bytes);
  const MediaReader reader(scratch.folder(), 1'000'000);
  const lf_media_info info = reader.probe("bogus.mp4", LF_MEDIA_VIDEO);
  EXPECT_EQ(info.frames, 60);
  EXPECT_NEAR(info.seconds, info.frames / info.frames_per_second, 1e-9);
  EXPECT_NEAR(decode(reader, "bogus.mp4", {59}).at(0, kHeight - 2, kWidth - 2)[0], 16 + 3 * 59, 1);
}

TEST(Video, what_is_no_video_is_named) {
  const MediaReader reader(media_folder(), 1'000'000);
  EXPECT_THAT(refusal(reader, "sound_only.mp4"), AllOf(HasSubstr("sound_only.mp4: "), HasSubstr("no video")));
  EXPECT_THAT(refusal(reader, "png_rgb.png"), HasSubstr("png_rgb.png: not a video"));
  EXPECT_THAT(refusal(reader, "absent.mp4"), HasSubstr("absent.mp4: No such file"));
  EXPECT_THAT(refusal(reader, "."), HasSubstr("not a regular file"));
}

TEST(Video, a_playlist_that_names_other_files_is_refused) {
  const Scratch scratch;
  scratch.write("list.mp4", "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n" + (media_folder() / "h264.ts").string() +
                                "\n#EXT-X-ENDLIST\n");
  scratch.write("list.ffconcat", "ffconcat version 1.0\nfile '" + (media_folder() / "h264.mp4").string() + "'\n");
  const MediaReader reader(scratch.folder(), 1'000'000);
  EXPECT_THAT(refusal(reader, "list.mp4"), HasSubstr("not a video"));
  EXPECT_THAT(refusal(reader, "list.ffconcat"), HasSubstr("not a video"));
}

TEST(Video, frames_larger_than_the_limit_are_refused) {
  const MediaReader strict(media_folder(), kWidth * kHeight - 1);
  for (const char* name : {"h264.mp4", "h264.ts", "vp9.webm"})
    EXPECT_THAT(refusal(strict, name), AllOf(HasSubstr("48 x 32"), HasSubstr("data.max_decoded_pixels"))) << name;
}

TEST(Video, a_clip_larger_than_the_limit_is_refused_before_decoding) {
  const MediaReader tight(media_folder(), kWidth * kHeight);
  EXPECT_EQ(refusal(tight, "h264.mp4", std::vector<int64_t>(10, 3)), "");
  EXPECT_THAT(refusal(tight, "h264.mp4", std::vector<int64_t>(11, 3)), HasSubstr("lower data.video_max_frames"));
}

TEST(Video, a_frame_beyond_the_end_is_refused) {
  EXPECT_THAT(refusal(MediaReader(media_folder(), 1'000'000), "h264.mp4", {60}), HasSubstr("the video has 60"));
}

TEST(Video, after_a_stop_nothing_is_decoded) {
  MediaReader reader(media_folder(), 1'000'000);
  decode(reader, "h264.mp4", {59});
  reader.stop();
  try {
    decode(reader, "h264.mp4", {59});
    FAIL() << "decoded to the end";
  } catch (const sdk::Failure& failure) {
    EXPECT_EQ(failure.code(), LF_E_ABORTED);
  }
}

TEST(Video, a_truncated_file_is_refused_or_gives_the_right_frames) {
  const Scratch scratch;
  const MediaReader reader(scratch.folder(), 1'000'000);
  int refused = 0;
  for (const char* name : {"h264.mp4", "h264_open_gop.mkv", "h264.ts", "vp8.webm", "h264_fragmented.mp4"}) {
    const std::string whole = read_file(media_folder() / name);
    for (size_t size = 1; size < whole.size(); size += whole.size() / 20) {
      scratch.write(name, std::string_view(whole).substr(0, size));
      try {
        const int64_t last = reader.probe(name, LF_MEDIA_VIDEO).frames - 1;
        const Clip clip = decode(reader, name, {last / 2, last});
        EXPECT_NEAR(clip.at(0, kHeight - 2, kWidth - 2)[0], 16 + 3 * (last / 2), 1) << name << " cut at " << size;
      } catch (const sdk::Failure& failure) {
        EXPECT_EQ(failure.code(), LF_E_DATA) << failure.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 20);
}

TEST(Video, flipped_bits_never_do_more_than_spoil_it) {
  const Scratch scratch;
  const MediaReader reader(scratch.folder(), 1'000'000);
  std::mt19937 dice(6);
  for (const char* name : {"h264.mp4", "h264.avi", "vp8.webm", "h264.ts"}) {
    const std::string whole = read_file(media_folder() / name);
    for (int i = 0; i < 40; ++i) {
      std::string bytes = whole;
      for (int flip = 0; flip < 4; ++flip) bytes[dice() % bytes.size()] ^= static_cast<char>(1 << dice() % 8);
      scratch.write(name, bytes);
      const std::string reason = refusal(reader, name, {0, 20});
      EXPECT_TRUE(reason.empty() || reason.find(name) != reason.npos) << reason;
    }
  }
}

TEST(Video, a_file_written_anew_under_the_same_name_is_read_anew) {
  const Scratch scratch;
  const MediaReader reader(scratch.folder(), 1'000'000);
  const auto last = [&](int64_t frame) { return decode(reader, "v", {frame}).mean(0, 20, 30, 0); };
  scratch.write("v", read_file(media_folder() / "h264.mp4"));
  EXPECT_NEAR(last(10), 16 + 3 * 10, 0);
  EXPECT_NEAR(last(59), 16 + 3 * 59, 0);
  std::filesystem::remove(scratch.folder() / "v");
  scratch.write("v", read_file(media_folder() / "h264_cut.mp4"));  // begins at frame 15
  EXPECT_NEAR(last(10), 16 + 3 * 25, 0);
  EXPECT_THAT(refusal(reader, "v", {59}), HasSubstr("frame 59 was asked for; the video has 45"));
}

VideoFile file(uint64_t inode, int64_t size = 1) { return {"", "", 1, inode, 7, size, false}; }
video::FrameTimes times(int64_t frames) {
  std::vector<video::FrameEntry> table;
  for (int64_t i = 0; i < frames; ++i) table.push_back({i, i, i == 0});
  return video::FrameTimes(table);
}

TEST(Video, times_of_files_are_kept_until_newer_ones_need_the_room) {
  video::IndexCache alone;
  alone.keep(file(1), times(40));
  video::IndexCache cache(alone.bytes() * 5 / 2);  // room for two
  cache.keep(file(1), times(40));
  const auto held = cache.keep(file(2), times(40));
  ASSERT_NE(cache.find(file(1)), nullptr);
  EXPECT_EQ(cache.find(file(1, 2)), nullptr);  // of another size: another content
  cache.keep(file(3), times(40));              // the second was asked for longest ago
  EXPECT_EQ(cache.find(file(2)), nullptr);
  EXPECT_NE(cache.find(file(1)), nullptr);
  EXPECT_NE(cache.find(file(3)), nullptr);
  EXPECT_EQ(held->count(), 40);
  EXPECT_EQ(cache.keep(file(4), times(400))->count(), 400);  // too large to be kept, good for its caller
  EXPECT_EQ(cache.find(file(4)), nullptr);
  EXPECT_NE(cache.find(file(3)), nullptr);
  EXPECT_EQ(cache.count(), 2u);
}

TEST(Video, times_of_many_short_clips_stay_below_the_limit_with_all_that_they_take) {
  constexpr size_t kLimit = 1 << 20;
  video::IndexCache cache(kLimit);
  for (uint64_t inode = 1; inode <= 20'000; ++inode) {
    cache.keep(file(inode), times(2));
    ASSERT_LE(cache.bytes(), kLimit);
  }
  // Two frames of 16 bytes and a key frame of 24 are the least of it.
  EXPECT_GT(cache.count(), kLimit / 1000);
  EXPECT_LT(cache.count(), kLimit / (2 * 16 + 24 + 100));
  const uint64_t first = 20'001 - cache.count();
  for (uint64_t inode = 1; inode <= 20'000; ++inode)
    ASSERT_EQ(cache.find(file(inode)) != nullptr, inode >= first) << inode;
}

TEST(Video, times_of_bytes_in_memory_are_not_kept) {
  video::IndexCache cache;
  VideoFile held = file(1);
  held.in_memory = true;
  EXPECT_EQ(cache.keep(held, times(40))->count(), 40);
  EXPECT_EQ(cache.find(held), nullptr);
  EXPECT_EQ(cache.count(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

}  // namespace
}  // namespace lf
