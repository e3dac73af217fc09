#include "data/video/frame_times.h"

#include <algorithm>

namespace lf::video {

FrameTimes::FrameTimes(const std::vector<FrameEntry>& table) {
  for (const FrameEntry& entry : table) {
    const auto place = static_cast<int64_t>(shown_.size());
    shown_.push_back({entry.pts, place});
    timed_ = timed_ && entry.pts != AV_NOPTS_VALUE;
    if (entry.key && (keys_.empty() || entry.pts > keys_.back().pts))
      keys_.push_back({entry.pts, place, entry.dts != AV_NOPTS_VALUE ? entry.dts : entry.pts});
  }
  shown_.shrink_to_fit();  // they may be kept for long
  keys_.shrink_to_fit();
  if (!timed_) return;
  std::ranges::sort(shown_, {}, &Shown::pts);
  timed_ = std::ranges::adjacent_find(shown_, {}, &Shown::pts) == shown_.end();
}

int64_t FrameTimes::frame_at(int64_t pts) const {
  const auto found = std::ranges::lower_bound(shown_, pts, {}, &Shown::pts);
  return found != shown_.end() && found->pts == pts ? found - shown_.begin() : -1;
}

FrameTimes::Start FrameTimes::start_for(int64_t frame) const {
  // Frames shown before a key frame but stored after it may need what came before it: hence by pts.
  const auto after = std::ranges::upper_bound(keys_, shown_[frame].pts, {}, &Key::pts);
  if (after == keys_.begin()) return {0, shown_.front().pts};
  const Key& key = *std::prev(after);
  return {key.place, key.seek_time};
}

}  // namespace lf::video
