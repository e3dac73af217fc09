#include "arena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

namespace lf::sim {
namespace {

constexpr uint64_t kUnit = 256;
constexpr uint64_t kPoisoned = 4096;  // the head of each block: enough to catch whoever expects zeroes
constexpr int kPoison = 0xA5;

std::byte* map(uint64_t bytes, int protection) {
  void* range = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(range);
}

}  // namespace

Arena::Arena(uint64_t capacity)
    : capacity_(capacity / kUnit * kUnit),
      addresses_(map(capacity_, PROT_NONE)),
      bytes_(map(capacity_, PROT_READ | PROT_WRITE)),
      gaps_{{0, capacity_}} {}

Arena::~Arena() {
  munmap(addresses_, capacity_);
  munmap(bytes_, capacity_);
}

void* Arena::allocate(uint64_t bytes, bool mappable) {
  if (bytes > capacity_) return nullptr;
  const uint64_t rounded = std::max<uint64_t>(1, (bytes + kUnit - 1) / kUnit) * kUnit;
  const std::lock_guard lock(mutex_);
  const auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& g) { return g.second >= rounded; });
  if (gap == gaps_.end()) return nullptr;
  const auto [offset, room] = *gap;
  gaps_.erase(gap);
  if (room > rounded) gaps_[offset + rounded] = room - rounded;
  live_[offset] = {rounded, mappable};
  used_ += rounded;
  std::memset(bytes_ + offset, kPoison, std::min(rounded, kPoisoned));
  return addresses_ + offset;
}

bool Arena::release(const void* memory) {
  const std::lock_guard lock(mutex_);
  const auto block = live_.find(static_cast<const std::byte*>(memory) - addresses_);
  if (!contains(memory) || block == live_.end()) return false;
  uint64_t offset = block->first, bytes = block->second.bytes;
  used_ -= bytes;
  live_.erase(block);
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return true;
    }
  }
  gaps_[offset] = bytes;
  return true;
}

bool Arena::contains(const void* memory) const {
  const auto* at = static_cast<const std::byte*>(memory);
  return at >= addresses_ && at < addresses_ + capacity_;
}

std::byte* Arena::bytes_of(const void* memory, uint64_t bytes, bool must_be_mappable) const {
  if (!contains(memory)) return nullptr;
  const std::lock_guard lock(mutex_);
  const uint64_t offset = static_cast<const std::byte*>(memory) - addresses_;
  auto block = live_.upper_bound(offset);
  if (block == live_.begin()) return nullptr;
  --block;
  if (bytes > block->second.bytes || offset - block->first > block->second.bytes - bytes) return nullptr;
  if (must_be_mappable && !block->second.mappable) return nullptr;
  return bytes_ + offset;
}

uint64_t Arena::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace lf::sim
