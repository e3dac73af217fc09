// Tokens by id and by the bytes they spell.
#pragma once

#include <cstdint>
#include <optional>
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

  std::optional<TokenId> find(std::string_view bytes) const {
    for (size_t slot = hash(bytes) & mask_;; slot = (slot + 1) & mask_) {
      const TokenId id = slots_[slot];
      if (id < 0) return std::nullopt;
      if (spelling(id) == bytes) return id;
    }
  }
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
  static uint64_t hash(std::string_view bytes);
  std::string_view spelling(TokenId id) const {
    const Span& span = spans_[static_cast<size_t>(id)];
    return std::string_view(text_).substr(span.offset, span.size);
  }
  void grow();

  std::string text_;
  std::vector<Span> spans_;
  std::vector<TokenId> slots_;  // open addressing, -1: free; at most half full
  size_t mask_ = 0;
  size_t count_ = 0, reachable_ = 0;
};

}  // namespace lf::text
