#include "data/video/clip.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "data/media/exif.h"
#include "data/video/frame_times.h"
#include "data/video/to_rgb.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::video {
namespace {

// Decodes forward from where it stands; frames come in order of presentation.
class Decoder {
 public:
  Decoder(const VideoFile& file, const VideoLimits& limits, const FrameTimes& times)
      : input_(file, limits), times_(times), packet_(av_packet_alloc()), frame_(av_frame_alloc()) {
    const AVCodecParameters& parameters = *input_.stream().codecpar;
    const AVCodec* codec = avcodec_find_decoder(parameters.codec_id);
    if (codec == nullptr) input_.fail(fmt::format("no decoder for {}", avcodec_get_name(parameters.codec_id)));
    codec_.reset(avcodec_alloc_context3(codec));
    if (!codec_ || !packet_ || !frame_) throw std::bad_alloc();
    avcodec_parameters_to_context(codec_.get(), &parameters);
    codec_->pkt_timebase = input_.stream().time_base;
    codec_->thread_count = 1;  // loader threads are the parallelism
    codec_->max_pixels = codec_pixels(limits);
    if (const int code = avcodec_open2(codec_.get(), codec, nullptr); code < 0)
      input_.fail("cannot start the decoder", code);
  }

  const Input& input() const { return input_; }
  // In the file's order: packets before it have been sent.
  int64_t place() const { return place_; }

  // Goes on from the key frame, or from one before it. False where the container could not be made to: then this
  // decoder is of no further use.
  bool seek(const FrameTimes::Start& start) {
    if (av_seek_frame(&input_.format(), input_.stream().index, start.seek_time, AVSEEK_FLAG_BACKWARD) < 0) return false;
    avcodec_flush_buffers(codec_.get());
    ended_ = false;
    if (!read()) return false;
    const int64_t frame = times_.frame_at(packet_->pts);
    if (frame < 0 || times_.place_of(frame) > start.place) return false;
    place_ = times_.place_of(frame);
    held_ = true;
    return true;
  }

  // The next frame and its number, or null at the end. Frames that `wanted` does not ask for may be left out.
  template <typename Wanted>
  std::pair<const AVFrame*, int64_t> next(Wanted&& wanted) {
    for (;;) {
      av_frame_unref(frame_.get());
      const int code = avcodec_receive_frame(codec_.get(), frame_.get());
      if (code == 0) {
        const int64_t number = times_.timed() ? times_.frame_at(frame_->pts) : counted_++;
        if (number >= 0) return {frame_.get(), number};
        continue;  // cut away by an edit list, or without a time of its own
      }
      if (code == AVERROR_EOF) return {nullptr, -1};
      if (code != AVERROR(EAGAIN)) input_.fail("cannot decode the video", code);
      send(wanted);
    }
  }

 private:
  bool read() {
    if (!input_.next(*packet_)) ended_ = true;
    return !ended_;
  }

  template <typename Wanted>
  void send(Wanted&& wanted) {
    if (!std::exchange(held_, false)) read();
    if (ended_) {
      avcodec_send_packet(codec_.get(), nullptr);
      return;
    }
    if (times_.timed()) {
      const int64_t frame = times_.frame_at(packet_->pts);
      if (frame >= 0) place_ = times_.place_of(frame) + 1;
      // Frames that no other refers to need not be decoded unless they are asked for.
      codec_->skip_frame = frame >= 0 && wanted(frame) ? AVDISCARD_DEFAULT : AVDISCARD_NONREF;
    }
    if (const int code = avcodec_send_packet(codec_.get(), packet_.get()); code < 0)
      input_.fail("cannot decode the video", code);
  }

  Input input_;
  const FrameTimes& times_;
  CodecPointer codec_;
  PacketPointer packet_;
  FramePointer frame_;
  int64_t place_ = 0, counted_ = 0;
  bool held_ = false;  // packet_ was read by seek() and not sent yet
  bool ended_ = false;
};

// How many frames will be decoded for these.
int64_t work_of(const FrameTimes& times, std::span<const int64_t> frames) {
  if (!times.timed()) return frames.back() + 1;
  int64_t place = 0, work = 0;
  for (const int64_t frame : frames) {
    const int64_t from = std::max(place, times.start_for(frame).place);
    const int64_t to = times.place_of(frame) + 1;
    if (to > from) work += to - from;
    place = std::max(place, to);
  }
  return work;
}

void check_request(const Input& input, const FrameTimes& times, const VideoLimits& limits,
                   std::span<const int64_t> frames) {
  if (frames.empty() || !std::ranges::is_sorted(frames) || frames.front() < 0)
    throw sdk::Failure(LF_E_INVALID, "frames of a video: expected some numbers from 0, ascending");
  if (frames.back() >= times.count())
    input.fail(fmt::format("frame {} was asked for; the video has {}", frames.back(), times.count()));
  const int64_t frame_pixels = int64_t{input.width()} * input.height();
  if (static_cast<int64_t>(frames.size()) > limits.clip_pixels / frame_pixels)
    input.fail(
        fmt::format("{} frames of {} x {} pixels at once; expected at most {} pixels (10 times "
                    "data.max_decoded_pixels): lower data.video_max_frames",
                    frames.size(), input.width(), input.height(), limits.clip_pixels));
  if (const int64_t work = work_of(times, frames); work > limits.work_pixels / frame_pixels)
    input.fail(
        fmt::format("{} frames of {} x {} pixels to decode; expected at most {} pixels (500 times "
                    "data.max_decoded_pixels): cut the video into shorter ones, or with more key frames",
                    work, input.width(), input.height(), limits.work_pixels));
}

}  // namespace

lf_tensor decode_clip(IndexCache& known, const VideoFile& file, const VideoLimits& limits,
                      std::span<const int64_t> frames, const std::function<bool()>& stopped) {
  std::shared_ptr<const FrameTimes> found = known.find(file);
  if (!found) {
    Input whole(file, limits);
    found = known.keep(file, FrameTimes(read_frame_table(whole)));
  }
  const FrameTimes& times = *found;
  Decoder first(file, limits, times);
  const Input& input = first.input();
  check_request(input, times, limits, frames);
  const bool turned = swaps_sides(input.orientation());
  const int64_t width = turned ? input.height() : input.width(), height = turned ? input.width() : input.height();
  const size_t frame_bytes = static_cast<size_t>(width) * height * 3;
  Pixels clip(width * height * static_cast<int64_t>(frames.size())), stored(width * height);
  ToRgb to_rgb(input);
  const auto wanted = [&](int64_t frame) { return std::ranges::binary_search(frames, frame); };

  Decoder* decoder = &first;
  std::optional<Decoder> from_start;  // where the first could not seek
  bool may_seek = times.timed();
  int64_t sought = 0;
  for (size_t done = 0; done < frames.size();) {
    const int64_t target = frames[done];
    if (may_seek) {
      const FrameTimes::Start start = times.start_for(target);
      if (start.place > std::max(sought, decoder->place())) {
        sought = start.place;
        may_seek = decoder->seek(start);
        if (!may_seek) decoder = &from_start.emplace(file, limits, times);
      }
    }
    const auto [frame, number] = decoder->next(wanted);
    if (stopped()) throw sdk::Failure(LF_E_ABORTED, "the job was asked to stop");
    if (frame == nullptr || number > target) input.fail(fmt::format("frame {} cannot be decoded", target));
    if (number < target) continue;
    if (frame->decode_error_flags != 0 || (frame->flags & AV_FRAME_FLAG_CORRUPT) != 0)
      input.fail(fmt::format("frame {} is broken", target));
    uint8_t* out = clip.bytes.get() + done * frame_bytes;
    const bool upright = input.orientation() == 1;
    to_rgb.convert(*frame, upright ? out : stored.bytes.get());
    if (!upright) turn_upright(stored.bytes.get(), input.width(), input.height(), input.orientation(), out);
    for (++done; done < frames.size() && frames[done] == target; ++done)
      std::copy_n(out, frame_bytes, clip.bytes.get() + done * frame_bytes);
  }
  return clip.give({static_cast<int64_t>(frames.size()), height, width, 3});
}

}  // namespace lf::video
