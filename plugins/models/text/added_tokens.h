// Tokens that stand beside the merges: found in the text as they are, before anything else is done to it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace lf::text {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;                 // structure, not text: `<|im_start|>`
  bool normalized = false;              // looked for in normalised text
  bool lstrip = false, rstrip = false;  // takes the blanks before it, after it
  bool single_word = false;             // only where no letter or digit touches it
};

// Finds tokens in text: the leftmost, and of those at one place the longest.
class AddedTokenFinder {
 public:
  void add(const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Which special tokens are found; the others stay text. Tokens that are not special are always found.
  struct Wanted {
    bool all_special = true;
    std::span<const TokenId> special;  // where not all
  };
  // Calls `piece` for each stretch of text (token null) and each token (text is what it took), in order.
  void scan(std::string_view text, const Wanted& wanted,
            const std::function<void(std::string_view text, const AddedToken* token)>& piece) const;

 private:
  struct Node {
    int32_t token = -1;
    std::vector<std::pair<uint8_t, uint32_t>> next;
  };
  // The longest token that starts at `at`, or null.
  const AddedToken* longest(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  bool starts_[256] = {};
};

}  // namespace lf::text
