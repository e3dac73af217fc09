#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace lf::text {

Vocabulary::Vocabulary(size_t count) {
  slots_.resize(std::bit_ceil(count * 4 / 3 + 16));
  mask_ = slots_.size() - 1;
  spans_.reserve(count);
  text_.reserve(8 * count);
}

namespace {

template <typename Word>
uint64_t load(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The last bytes, fewer than eight, in one word; which of them it holds twice depends on their number alone.
uint64_t load_rest(const char* at, size_t n) {
  if (n >= 4) return load<uint32_t>(at) | load<uint32_t>(at + n - 4) << 32;
  return load<uint8_t>(at) | load<uint8_t>(at + n / 2) << 8 | load<uint8_t>(at + n - 1) << 16;
}

}  // namespace

// Eight bytes at a time, multiplied and folded; vocabularies are trusted not to aim at collisions (a hostile one is
// slow to load, nothing worse).
uint64_t Vocabulary::hash(std::string_view bytes) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
  uint64_t state = bytes.size() * kOdd;
  const auto mix = [&state](uint64_t word) {
    state = (state ^ word) * kOdd;
    state ^= state >> 29;
  };
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) mix(load<uint64_t>(at));
  if (left > 0) mix(load_rest(at, left));
  return state ^ state >> 32;
}

void Vocabulary::find_all(std::span<const std::string_view> spellings, std::span<TokenId> ids) const {
  constexpr size_t kBatch = 32;
  std::array<uint64_t, kBatch> hashed;
  for (size_t first = 0; first < spellings.size(); first += kBatch) {
    const size_t n = std::min(kBatch, spellings.size() - first);
    for (size_t i = 0; i < n; ++i) {
      hashed[i] = hash(spellings[first + i]);
      __builtin_prefetch(&slots_[hashed[i] & mask_]);
    }
    for (size_t i = 0; i < n; ++i)  // nearly always the token that is looked for
      if (const Slot& slot = slots_[hashed[i] & mask_]; slot.id != kFree) __builtin_prefetch(&spans_[slot.id]);
    for (size_t i = 0; i < n; ++i)
      if (const Slot& slot = slots_[hashed[i] & mask_]; slot.id != kFree)
        __builtin_prefetch(text_.data() + spans_[slot.id].offset);
    for (size_t i = 0; i < n; ++i) ids[first + i] = search(spellings[first + i], hashed[i]).value_or(-1);
  }
}

void Vocabulary::place(TokenId id, uint64_t hashed) {
  size_t slot = hashed & mask_;
  while (slots_[slot].id != kFree) slot = (slot + 1) & mask_;
  slots_[slot] = {tag_of(hashed), id};
}

void Vocabulary::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.size() * 2, Slot{});
  mask_ = slots_.size() - 1;
  for (const Slot& held : old)
    if (held.id != kFree) place(held.id, hash(spelling(held.id)));
}

bool Vocabulary::add(TokenId id, std::string_view bytes, bool reachable) {
  if (id < 0 || id >= kMaxId || holds(id)) return false;
  const uint64_t hashed = reachable ? hash(bytes) : 0;
  if (reachable && search(bytes, hashed)) return false;
  if (id >= end()) spans_.resize(static_cast<size_t>(id) + 1);
  spans_[static_cast<size_t>(id)] = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(bytes.size()), true};
  text_.append(bytes);
  ++count_;
  if (!reachable) return true;
  if (4 * ++reachable_ > 3 * slots_.size()) grow();
  place(id, hashed);
  return true;
}

}  // namespace lf::text
