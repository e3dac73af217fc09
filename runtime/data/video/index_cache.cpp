#include "data/video/index_cache.h"

#include <algorithm>

namespace lf::video {

std::shared_ptr<const FrameTimes> IndexCache::find(const VideoFile& file) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(entries_, key_of(file), &decltype(entries_)::value_type::first);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->second;
}

std::shared_ptr<const FrameTimes> IndexCache::keep(const VideoFile& file, FrameTimes times) {
  auto kept = std::make_shared<const FrameTimes>(std::move(times));
  const auto count = static_cast<size_t>(kept->count());
  const std::lock_guard lock(mutex_);
  const Key key = key_of(file);
  // Another thread may have read the same file meanwhile.
  if (count > max_frames_ || std::ranges::find(entries_, key, &decltype(entries_)::value_type::first) != entries_.end())
    return kept;
  entries_.emplace_front(key, kept);
  frames_ += count;
  while (frames_ > max_frames_) {
    frames_ -= static_cast<size_t>(entries_.back().second->count());
    entries_.pop_back();
  }
  return kept;
}

}  // namespace lf::video
