// Frame times of videos that were read before. A clip needs them all, and finding them reads the whole file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "data/video/frame_times.h"
#include "data/video/video_library.h"

namespace lf::video {

// The least recently asked for go first. Keyed by what the file is, not by its name: one that was written anew is
// another file. Bytes in memory are not kept: each opening of them is another file. Thread-safe; what find() gave stays
// valid when it is dropped here.
class IndexCache {
 public:
  // 16 bytes a frame and some 250 a video: about 38 hours at 30 frames per second, or 130,000 clips of 16 frames.
  static constexpr size_t kMaxBytes = 64 << 20;

  explicit IndexCache(size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  std::shared_ptr<const FrameTimes> find(const VideoFile& file);  // null: not here
  std::shared_ptr<const FrameTimes> keep(const VideoFile& file, FrameTimes times);

  size_t count() const;
  size_t bytes() const;  // of all entries, with what leads to them

 private:
  struct Key {
    uint64_t device, inode;
    int64_t changed_ns, size;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  struct Entry {
    Key key;
    std::shared_ptr<const FrameTimes> times;
  };
  using Entries = std::list<Entry>;  // the latest asked for first

  static Key key_of(const VideoFile& file) { return {file.device, file.inode, file.changed_ns, file.size}; }
  static size_t bytes_of(const FrameTimes& times);

  const size_t max_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::unordered_map<Key, Entries::iterator, Hash> places_;
  size_t bytes_ = 0;
};

}  // namespace lf::video
