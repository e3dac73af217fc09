// Byte-pair merges: which two neighbouring tokens become one, and in which order.
// Source: Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016), algorithm 1.
#pragma once

#include <cstdint>
#include <vector>

#include "text/vocabulary.h"

namespace lf::text {

class MergeTable {
 public:
  explicit MergeTable(size_t count = 0);

  // The next merge in order of rank. Returns false where the pair has one already (the first one stays).
  bool add(TokenId left, TokenId right, TokenId merged);

  // Merges neighbours in `word` until none is left to merge: the lowest rank first, the leftmost of equals.
  // O(n log n) in its length.
  void apply(std::vector<TokenId>& word) const;

  size_t count() const { return count_; }

 private:
  struct Merge {
    uint64_t pair = kFree;
    uint32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr uint64_t kFree = ~uint64_t{0};
  static uint64_t key(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t pair) const {
    uint64_t mixed = pair * 0x9E3779B97F4A7C15u;
    return (mixed ^ mixed >> 32) & mask_;
  }
  const Merge* find(TokenId left, TokenId right) const {
    const uint64_t pair = key(left, right);
    for (size_t slot = slot_of(pair);; slot = (slot + 1) & mask_) {
      if (merges_[slot].pair == pair) return &merges_[slot];
      if (merges_[slot].pair == kFree) return nullptr;
    }
  }
  void grow();
  void apply_scanning(std::vector<TokenId>& word) const;
  void apply_queued(std::vector<TokenId>& word) const;

  std::vector<Merge> merges_;  // open addressing; at most 5/8 full
  size_t mask_ = 0;
  size_t count_ = 0;
};

}  // namespace lf::text
