// liblfvideo.so: everything that needs FFmpeg. A library of its own, opened at the first video: FFmpeg on Debian brings
// 130 shared objects, 40 to 60 ms of every start, and a second OpenMP runtime.
#pragma once

#include <cstdint>

#include "lf/plugin_api/media.h"

namespace lf {

struct VideoLimits {
  int64_t frame_pixels;  // of one frame
  int64_t clip_pixels;   // of all frames returned by one call
  int64_t work_pixels;   // of all frames decoded by one call
};

// Both sides are of one build, but exceptions and C++ types stay out of it all the same. `path` is absolute, ended by a
// NUL. Thread-safe.
struct VideoTable {
  int32_t (*probe)(const char* path, const VideoLimits* limits, lf_media_info* out, lf_err* err);
  int32_t (*decode)(const char* path, const VideoLimits* limits, const int64_t* frames, uint64_t n,
                    int32_t (*stopped)(const void* context), const void* context, lf_tensor* out, lf_err* err);
};

constexpr const char* kVideoEntryName = "lf_video_table";
extern "C" LF_EXPORT const VideoTable* lf_video_table();

}  // namespace lf
