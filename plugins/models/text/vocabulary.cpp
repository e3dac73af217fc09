#include "text/vocabulary.h"

#include <bit>
#include <cstring>

namespace lf::text {

Vocabulary::Vocabulary(size_t count) {
  slots_.assign(std::bit_ceil(2 * count + 16), -1);
  mask_ = slots_.size() - 1;
  spans_.reserve(count);
  text_.reserve(8 * count);
}

// Eight bytes at a time, multiplied and folded; vocabularies are trusted not to aim at collisions (a hostile one is
// slow to load, nothing worse).
uint64_t Vocabulary::hash(std::string_view bytes) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
  uint64_t state = bytes.size() * kOdd;
  const char* at = bytes.data();
  for (size_t left = bytes.size(); left > 0;) {
    uint64_t word = 0;
    const size_t n = left < 8 ? left : 8;
    std::memcpy(&word, at, n);
    state = (state ^ word) * kOdd;
    state ^= state >> 29;
    at += n;
    left -= n;
  }
  return state ^ state >> 32;
}

void Vocabulary::grow() {
  const std::vector<TokenId> old = std::move(slots_);
  slots_.assign(old.size() * 2, -1);
  mask_ = slots_.size() - 1;
  for (const TokenId id : old) {
    if (id < 0) continue;
    size_t slot = hash(spelling(id)) & mask_;
    while (slots_[slot] >= 0) slot = (slot + 1) & mask_;
    slots_[slot] = id;
  }
}

bool Vocabulary::add(TokenId id, std::string_view bytes, bool reachable) {
  if (id < 0 || id >= kMaxId || holds(id)) return false;
  if (reachable && find(bytes)) return false;
  if (id >= end()) spans_.resize(static_cast<size_t>(id) + 1);
  spans_[static_cast<size_t>(id)] = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(bytes.size()), true};
  text_.append(bytes);
  ++count_;
  if (!reachable) return true;
  if (2 * ++reachable_ > slots_.size()) grow();
  size_t slot = hash(bytes) & mask_;
  while (slots_[slot] >= 0) slot = (slot + 1) & mask_;
  slots_[slot] = id;
  return true;
}

}  // namespace lf::text
