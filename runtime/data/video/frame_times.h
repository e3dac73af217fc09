// Which frame of the presentation a time stamp belongs to, and where decoding has to start for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/video/input.h"

namespace lf::video {

// Pure. Stream time stamps are in the stream's own units.
class FrameTimes {
 public:
  explicit FrameTimes(const std::vector<FrameEntry>& table);

  // Memory that it takes.
  size_t bytes() const { return sizeof *this + shown_.capacity() * sizeof(Shown) + keys_.capacity() * sizeof(Key); }

  int64_t count() const { return static_cast<int64_t>(shown_.size()); }
  // Every frame has a time stamp of its own. Otherwise frames can only be counted, from the start.
  bool timed() const { return timed_; }

  // Below: only where timed.
  int64_t frame_at(int64_t pts) const;  // in order of presentation; -1: no frame has this time
  int64_t place_of(int64_t frame) const { return shown_[frame].place; }  // in the file's order
  struct Start {
    int64_t place, seek_time;
  };
  // The last key frame from which `frame` can be decoded.
  Start start_for(int64_t frame) const;

 private:
  struct Shown {
    int64_t pts, place;
  };
  struct Key {
    int64_t pts, place, seek_time;
  };
  std::vector<Shown> shown_;  // in order of presentation
  std::vector<Key> keys_;     // in the file's order; of rising pts
  bool timed_ = true;
};

}  // namespace lf::video
