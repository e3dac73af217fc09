#include "data/video/input.h"

#include <fmt/format.h>

extern "C" {
#include <libavutil/display.h>
}

#include <cmath>
#include <string_view>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::video {
namespace {

constexpr const char* kContainers = "mov,mp4,matroska,webm,avi,mpegts,mpeg,flv,ogg,asf,gif";
constexpr size_t kMaxFrames = 10'000'000;

int orientation_of(const AVStream& stream) {
  size_t size = 0;
  const uint8_t* matrix = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  if (matrix == nullptr || size < 9 * sizeof(int32_t)) return 1;
  const double turn = -av_display_rotation_get(reinterpret_cast<const int32_t*>(matrix));  // clockwise
  if (std::isnan(turn)) return 1;
  switch (((std::lround(turn / 90) % 4) + 4) % 4) {
    case 1:
      return 6;
    case 2:
      return 3;
    case 3:
      return 8;
    default:
      return 1;
  }
}

}  // namespace

Input::Input(const VideoFile& file, const VideoLimits& limits) : name_(file.name) {
  AVDictionary* options = nullptr;
  av_dict_set(&options, "protocol_whitelist", "file", 0);
  av_dict_set(&options, "format_whitelist", kContainers, 0);
  AVFormatContext* opened = nullptr;
  // "file:" keeps a strange path from being taken for another protocol.
  const int code = avformat_open_input(&opened, (std::string("file:") + file.path).c_str(), nullptr, &options);
  av_dict_free(&options);
  if (code < 0) fail("not a video in one of the containers mp4, mkv, webm, avi, ts, mpeg, flv, ogg, asf, gif", code);
  format_.reset(opened);
  find_stream(limits);
}

void Input::find_stream(const VideoLimits& limits) {
  for (unsigned i = 0; i < format_->nb_streams; ++i) {
    const AVCodecParameters& codec = *format_->streams[i]->codecpar;
    if (codec.codec_type == AVMEDIA_TYPE_VIDEO && int64_t{codec.width} * codec.height > limits.frame_pixels)
      fail(fmt::format("frames of {} x {} pixels; expected at most {} (data.max_decoded_pixels)", codec.width,
                       codec.height, limits.frame_pixels));
  }
  // Looking into the first packets may decode some: with the same limits.
  std::vector<AVDictionary*> options(format_->nb_streams, nullptr);
  for (AVDictionary*& of_stream : options) {
    av_dict_set_int(&of_stream, "max_pixels", codec_pixels(limits), 0);
    av_dict_set_int(&of_stream, "threads", 1, 0);
  }
  const int code = avformat_find_stream_info(format_.get(), options.data());
  for (AVDictionary*& of_stream : options) av_dict_free(&of_stream);
  if (code < 0) fail("cannot read the streams' headers", code);

  stream_ = av_find_best_stream(format_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (stream_ < 0 || (stream().disposition & AV_DISPOSITION_ATTACHED_PIC) != 0) fail("no video in this file");
  for (unsigned i = 0; i < format_->nb_streams; ++i)
    if (static_cast<int>(i) != stream_) format_->streams[i]->discard = AVDISCARD_ALL;
  width_ = stream().codecpar->width;
  height_ = stream().codecpar->height;
  if (width_ <= 0 || height_ <= 0) fail("a video without width and height");
  if (int64_t{width_} * height_ > limits.frame_pixels)
    fail(fmt::format("frames of {} x {} pixels; expected at most {} (data.max_decoded_pixels)", width_, height_,
                     limits.frame_pixels));
  orientation_ = orientation_of(stream());
}

bool Input::next(AVPacket& packet) {
  for (;;) {
    av_packet_unref(&packet);
    const int code = av_read_frame(format_.get(), &packet);
    if (code == AVERROR_EOF) return false;
    if (code < 0) fail("cannot read the video", code);
    if (packet.stream_index == stream_) return true;
  }
}

void Input::fail(const std::string& reason) const { throw sdk::Failure(LF_E_DATA, name_ + ": " + reason); }

void Input::fail(const std::string& reason, int ffmpeg_error) const {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(ffmpeg_error, text, sizeof text);
  fail(reason + " (" + text + ")");
}

namespace {

// VP8 stores frames that are only referred to as packets of their own (RFC 6386, 9.1: show_frame).
bool is_shown(AVCodecID codec, const AVPacket& packet) {
  return codec != AV_CODEC_ID_VP8 || packet.size < 1 || (packet.data[0] >> 4 & 1) != 0;
}

}  // namespace

std::vector<FrameEntry> read_frame_table(Input& input) {
  std::vector<FrameEntry> table;
  const PacketPointer packet(av_packet_alloc());
  while (input.next(*packet)) {
    if ((packet->flags & AV_PKT_FLAG_DISCARD) != 0 || !is_shown(input.stream().codecpar->codec_id, *packet)) continue;
    if (table.size() == kMaxFrames) input.fail(fmt::format("more than {} frames", kMaxFrames));
    table.push_back({packet->pts, packet->dts, (packet->flags & AV_PKT_FLAG_KEY) != 0});
  }
  return table;
}

std::optional<int64_t> indexed_frames(Input& input) {
  AVStream& stream = input.stream();
  const int indexed = avformat_index_get_entries_count(&stream);
  // Only an index that a container wrote whole says how many frames there are: mp4's, when nothing is edited away.
  bool complete = std::string_view(input.format().iformat->name).find("mp4") != std::string_view::npos &&
                  stream.nb_frames > 0 && stream.nb_frames == indexed;
  for (int i = 0; complete && i < indexed; ++i)
    complete = (avformat_index_get_entry(&stream, i)->flags & AVINDEX_DISCARD_FRAME) == 0;
  return complete ? std::optional<int64_t>(indexed) : std::nullopt;
}

}  // namespace lf::video
