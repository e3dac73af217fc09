#include "data/video/video_library.h"

#include <cmath>

#include "data/video/clip.h"
#include "data/video/index_cache.h"
#include "data/video/input.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf {
namespace {

constexpr double kMaxFramesPerSecond = 1000;

// What the header says, where it makes sense; else what the frames' number and the length give.
double frames_per_second(const video::Input& input, const AVStream& stream, int64_t frames) {
  const double length =
      stream.duration == AV_NOPTS_VALUE ? 0 : static_cast<double>(stream.duration) * av_q2d(stream.time_base);
  for (const double rate :
       {av_q2d(stream.avg_frame_rate), av_q2d(stream.r_frame_rate), static_cast<double>(frames) / length})
    if (std::isfinite(rate) && rate > 0 && rate <= kMaxFramesPerSecond) return rate;
  input.fail("a video without a frame rate");
}

video::IndexCache& cache_of(void* index) { return *static_cast<video::IndexCache*>(index); }

// From the container's index where that is known to be complete, else by reading the file: what that gives is kept.
int64_t count_frames(void* index, const VideoFile& file, video::Input& input) {
  if (const auto known = cache_of(index).find(file)) return known->count();
  if (const auto indexed = video::indexed_frames(input)) return *indexed;
  return cache_of(index).keep(file, video::FrameTimes(video::read_frame_table(input)))->count();
}

int32_t probe(void* index, const VideoFile* file, const VideoLimits* limits, lf_media_info* out, lf_err* err) {
  return sdk::guard(err, [&] {
    video::Input input(*file, *limits);
    const bool turned = input.orientation() > 4;
    out->kind = LF_MEDIA_VIDEO;
    out->width = turned ? input.height() : input.width();
    out->height = turned ? input.width() : input.height();
    out->frames = count_frames(index, *file, input);
    if (out->frames == 0) input.fail("a video without frames");
    out->frames_per_second = frames_per_second(input, input.stream(), out->frames);
    out->seconds = static_cast<double>(out->frames) / out->frames_per_second;
  });
}

int32_t decode(void* index, const VideoFile* file, const VideoLimits* limits, const int64_t* frames, uint64_t n,
               int32_t (*stopped)(const void* context), const void* context, lf_tensor* out, lf_err* err) {
  return sdk::guard(err, [&] {
    *out = video::decode_clip(cache_of(index), *file, *limits, {frames, n}, [&] { return stopped(context) != 0; });
  });
}

constexpr VideoTable kTable = {[]() -> void* { return new video::IndexCache; },
                               [](void* index) { delete static_cast<video::IndexCache*>(index); }, probe, decode};

}  // namespace

const VideoTable* lf_video_table() {
  av_log_set_level(AV_LOG_QUIET);  // failures are told by the messages of this library
  return &kTable;
}

}  // namespace lf
