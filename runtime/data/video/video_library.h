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

struct VideoFile {
  const char* path;  // what is opened: absolute, ended by a NUL
  const char* name;  // what messages call it
  uint64_t device, inode;
  int64_t changed_ns, size;  // as stat has them; of bytes in memory only size
  bool in_memory;            // what was learnt of it is of no use to a later opening
};

// Both sides are of one build, but exceptions and C++ types stay out of it all the same. Thread-safe.
struct VideoTable {
  // What has been learnt of files already read; one per reader, bounded.
  void* (*open_index)();
  void (*close_index)(void* index);
  int32_t (*probe)(void* index, const VideoFile* file, const VideoLimits* limits, lf_media_info* out, lf_err* err);
  int32_t (*decode)(void* index, const VideoFile* file, const VideoLimits* limits, const int64_t* frames, uint64_t n,
                    int32_t (*stopped)(const void* context), const void* context, lf_tensor* out, lf_err* err);
};

constexpr const char* kVideoEntryName = "lf_video_table";
extern "C" LF_EXPORT const VideoTable* lf_video_table();

}  // namespace lf
