#include "data/video/index_cache.h"

#include <iterator>
#include <utility>

namespace lf::video {

size_t IndexCache::Hash::operator()(const Key& key) const {
  // Inodes of one folder are neighbours, and times and sizes alike: each bit has to count (Steele et al.,
  // "Fast splittable pseudorandom number generators", OOPSLA 2014: the finalizer of SplitMix64).
  uint64_t hash = 0;
  for (const uint64_t part :
       {key.device, key.inode, static_cast<uint64_t>(key.changed_ns), static_cast<uint64_t>(key.size)}) {
    hash += part + 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
    hash ^= hash >> 31;
  }
  return hash;
}

size_t IndexCache::bytes_of(const FrameTimes& times) {
  constexpr size_t kListNode = sizeof(Entry) + 2 * sizeof(void*);
  constexpr size_t kMapNode =
      sizeof(std::pair<const Key, Entries::iterator>) + 3 * sizeof(void*);  // hash, next, bucket
  constexpr size_t kShared = 2 * sizeof(void*);                             // the counts beside the times
  constexpr size_t kAllocations =
      5 * sizeof(size_t);  // what the allocator keeps of each: nodes, times and their two lists
  return times.bytes() + kListNode + kMapNode + kShared + kAllocations;
}

std::shared_ptr<const FrameTimes> IndexCache::find(const VideoFile& file) {
  if (file.in_memory) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(key_of(file));
  if (found == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->times;
}

std::shared_ptr<const FrameTimes> IndexCache::keep(const VideoFile& file, FrameTimes times) {
  auto kept = std::make_shared<const FrameTimes>(std::move(times));
  const size_t bytes = bytes_of(*kept);
  if (file.in_memory || bytes > max_bytes_) return kept;
  const std::lock_guard lock(mutex_);
  const Key key = key_of(file);
  if (places_.contains(key)) return kept;  // another thread has read the same file meanwhile
  entries_.push_front({key, kept});
  places_.emplace(key, entries_.begin());
  bytes_ += bytes;
  while (bytes_ > max_bytes_) {
    bytes_ -= bytes_of(*entries_.back().times);
    places_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return kept;
}

size_t IndexCache::count() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t IndexCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace lf::video
