// Tokens by id and by the bytes they spell.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lf::text {

using TokenId = int32_t;

class Vocabulary {
 public:
  // Room for `count` tokens; ids may have holes but stay below kMaxId.
  explicit Vocabulary(size_t count = 0);

  static constexpr int64_t kMaxId = 1 << 22;

  // `reachable`: whether find may answer it. Returns false where the id, or the bytes of a reachable token, are taken.
  bool add(TokenId id, std::string_view bytes, bool reachable);

  std::optional<TokenId> find(std::string_view bytes) const { return search(bytes, hash(bytes)); }
  // Many at once: waits for memory once for a batch of them, not for each. ids[i] of spellings[i], -1 where it is not
  // found. Of one size.
  void find_all(std::span<const std::string_view> spellings, std::span<TokenId> ids) const;
  // The bytes of a token; lives as long as the vocabulary. `id` must be held.
  std::string_view bytes(TokenId id) const { return spelling(id); }
  bool holds(int64_t id) const { return id >= 0 && id < end() && spans_[static_cast<size_t>(id)].held; }
  TokenId end() const { return static_cast<TokenId>(spans_.size()); }  // one more than the largest id
  size_t count() const { return count_; }

 private:
  struct Span {
    uint32_t offset = 0;
    uint32_t size = 0;
    bool held = false;
  };
  struct Slot {
    uint32_t tag = 0;  // the hash's upper half: unequal ones spare a look at the text, which is elsewhere in memory
    TokenId id = kFree;
  };
  static constexpr TokenId kFree = -1;
  static uint64_t hash(std::string_view bytes);
  static uint32_t tag_of(uint64_t hashed) { return static_cast<uint32_t>(hashed >> 32); }
  std::optional<TokenId> search(std::string_view bytes, uint64_t hashed) const {
    for (size_t slot = hashed & mask_;; slot = (slot + 1) & mask_) {
      const Slot& at = slots_[slot];
      if (at.id == kFree) return std::nullopt;
      if (at.tag == tag_of(hashed) && spelling(at.id) == bytes) return at.id;
    }
  }
  std::string_view spelling(TokenId id) const {
    const Span& span = spans_[static_cast<size_t>(id)];
    return std::string_view(text_).substr(span.offset, span.size);
  }
  void place(TokenId id, uint64_t hashed);  // into a free slot
  void grow();

  std::string text_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;  // open addressing; at most three quarters full
  size_t mask_ = 0;
  size_t count_ = 0, reachable_ = 0;
};

}  // namespace lf::text
