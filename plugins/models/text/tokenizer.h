// Text to token ids and back: BPE over bytes or letters as a tokenizer.json describes it, id for id what the
// `tokenizers` library gives with add_special_tokens=False. Nothing is added around a text: that is a template's
// business. The one difference known: letters younger than Unicode 10 (normal forms) and Unicode 15 (classes), where
// that library's tables differ from utf8proc's and PCRE2's.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_file.h"

namespace lf::text {

// Immutable once made; every function may run on many threads at once.
class Tokenizer {
 public:
  // Throws as read_tokenizer_file does, and LF_E_DATA where a byte has no token (then some texts had no encoding).
  explicit Tokenizer(TokenizerFile file);
  static Tokenizer load(const std::filesystem::path& tokenizer_json);

  // Every added token that the text spells is that token, as the `tokenizers` library does. Only for text that is
  // trusted.
  std::vector<TokenId> encode(std::string_view text) const;
  // Special tokens that the text spells stay text, except for `special`: a sample's text cannot forge structure. Added
  // tokens that are not special (`<think>`) are found as ever.
  std::vector<TokenId> encode_plain(std::string_view text, std::span<const TokenId> special = {}) const;
  // Both throw LF_E_DATA for invalid UTF-8, and for text on which the tokenizer's pattern needs too many steps.

  // The bytes that the tokens spell; added tokens as they are written. Not necessarily whole UTF-8 letters.
  // Throws LF_E_INVALID for an id that is no token.
  std::string decode(std::span<const TokenId> ids) const;

  // An added token by what it is written as, `<|im_end|>`.
  std::optional<TokenId> added_token(std::string_view content) const;
  TokenId end() const { return file_.vocabulary.end(); }  // one more than the largest id

 private:
  std::vector<TokenId> encode(std::string_view text, const AddedTokenFinder::Wanted& wanted) const;
  void encode_piece(std::string_view text, Pattern::Scratch& scratch, std::vector<TokenId>& out) const;
  void append_letters(std::string_view word, std::vector<TokenId>& symbols) const;
  void encode_word(std::string_view word, std::vector<TokenId>& symbols, std::vector<TokenId>& out) const;

  // Whether the merges give back the token whose spelling the whole word is: found out at first use, then a look-up
  // instead of merging. Relaxed: every thread finds the same.
  enum Whole : uint8_t { kUnknown, kYes, kNo };

  TokenizerFile file_;
  AddedTokenFinder in_raw_, in_normalized_;
  TokenId byte_token_[256];
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace lf::text
