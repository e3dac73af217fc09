// Frame times of videos that were read before. A clip needs them all, and finding them reads the whole file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "data/video/frame_times.h"
#include "data/video/video_library.h"

namespace lf::video {

// The least recently asked for go first. Keyed by what the file is, not by its name: one that was written anew is
// another file. Thread-safe; what find() gave stays valid when it is dropped here.
class IndexCache {
 public:
  // 16 bytes a frame: 64 MB, or about 40 hours at 30 frames per second.
  static constexpr size_t kMaxFrames = 4 << 20;

  explicit IndexCache(size_t max_frames = kMaxFrames) : max_frames_(max_frames) {}

  std::shared_ptr<const FrameTimes> find(const VideoFile& file);  // null: not here
  std::shared_ptr<const FrameTimes> keep(const VideoFile& file, FrameTimes times);

 private:
  struct Key {
    uint64_t device, inode;
    int64_t changed_ns, size;
    bool operator==(const Key&) const = default;
  };
  static Key key_of(const VideoFile& file) { return {file.device, file.inode, file.changed_ns, file.size}; }

  const size_t max_frames_;
  std::mutex mutex_;
  std::list<std::pair<Key, std::shared_ptr<const FrameTimes>>> entries_;  // the latest asked for first
  size_t frames_ = 0;
};

}  // namespace lf::video
