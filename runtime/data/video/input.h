// A video file opened for its frames.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/video/video_library.h"

namespace lf::video {

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* value) const {
    kFree(&value);
  }
};
using PacketPointer = std::unique_ptr<AVPacket, FreeWith<&av_packet_free>>;
using FramePointer = std::unique_ptr<AVFrame, FreeWith<&av_frame_free>>;
using CodecPointer = std::unique_ptr<AVCodecContext, FreeWith<&avcodec_free_context>>;

// Demuxes local files of the common containers only: playlists and the like, which name further files, are refused.
// Failures are sdk::Failure(LF_E_DATA) that starts with the file's name.
class Input {
 public:
  Input(const VideoFile& file, const VideoLimits& limits);
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  AVFormatContext& format() { return *format_; }
  AVStream& stream() { return *format_->streams[stream_]; }
  int width() const { return width_; }              // as stored
  int height() const { return height_; }            // as stored
  int orientation() const { return orientation_; }  // 1, 3, 6 or 8, as EXIF has it

  // The next packet of the video, or false at the end. Packets that an edit list cuts away are passed on, with
  // AV_PKT_FLAG_DISCARD: decoders need them.
  bool next(AVPacket& packet);
  [[noreturn]] void fail(const std::string& reason) const;
  [[noreturn]] void fail(const std::string& reason, int ffmpeg_error) const;

 private:
  void find_stream(const VideoLimits& limits);

  std::string name_;
  std::unique_ptr<AVFormatContext, FreeWith<&avformat_close_input>> format_;
  int stream_ = -1, width_ = 0, height_ = 0, orientation_ = 1;
};

// What a codec may allocate for a frame: its buffers are aligned, so a little more than the frame itself.
inline int64_t codec_pixels(const VideoLimits& limits) { return 2 * limits.frame_pixels + (1 << 16); }

// One entry per frame, in the file's order.
struct FrameEntry {
  int64_t pts, dts;
  bool key;
};

// Reads the whole file; nothing is decoded.
std::vector<FrameEntry> read_frame_table(Input& input);

// The same as read_frame_table().size(), from the container's index; nothing where that is not known to be complete.
std::optional<int64_t> indexed_frames(Input& input);

}  // namespace lf::video
