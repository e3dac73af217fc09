#include "text/tokenizer.h"

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::text {

Tokenizer::Tokenizer(TokenizerFile file) : file_(std::move(file)) {
  for (int byte = 0; byte < 256 && !file_.letters; ++byte) {
    const char c = static_cast<char>(byte);
    const auto id = file_.vocabulary.find(std::string_view(&c, 1));
    if (!id)
      throw sdk::Failure(LF_E_DATA,
                         fmt::format("the vocabulary has no token for byte 0x{:02x}: expected all 256", byte));
    byte_token_[byte] = *id;
  }
  std::string storage;
  for (const AddedToken& token : file_.added) {
    if (!token.normalized) {
      in_raw_.add(token);
      continue;
    }
    AddedToken normal = token;
    normal.content = file_.normalizer.apply(token.content, storage);
    in_normalized_.add(normal);
  }
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(static_cast<size_t>(file_.vocabulary.end()));
}

Tokenizer Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  return Tokenizer(read_tokenizer_file(tokenizer_json));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const { return encode(text, AddedTokenFinder::Wanted{}); }

std::vector<TokenId> Tokenizer::encode_plain(std::string_view text, std::span<const TokenId> special) const {
  return encode(text, AddedTokenFinder::Wanted{false, special});
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const AddedTokenFinder::Wanted& wanted) const {
  if (const size_t bad = invalid_utf8_at(text); bad != text.npos)
    throw sdk::Failure(LF_E_DATA, fmt::format("text: expected valid UTF-8, got byte 0x{:02x} at byte {}",
                                              static_cast<uint8_t>(text[bad]), bad));
  std::vector<TokenId> out;
  out.reserve(text.size() / 3 + 4);
  thread_local Pattern::Scratch scratch;  // kept: making one maps memory, and unmapping it halts the other threads
  std::string storage;
  in_raw_.scan(text, wanted, [&](std::string_view raw, const AddedToken* token) {
    if (token != nullptr) {
      out.push_back(token->id);
      return;
    }
    const std::string_view normal = file_.normalizer.apply(raw, storage);
    if (in_normalized_.empty()) return encode_piece(normal, scratch, out);
    in_normalized_.scan(normal, wanted, [&](std::string_view piece, const AddedToken* added) {
      if (added != nullptr) {
        out.push_back(added->id);
      } else {
        encode_piece(piece, scratch, out);
      }
    });
  });
  return out;
}

void Tokenizer::encode_piece(std::string_view text, Pattern::Scratch& scratch, std::vector<TokenId>& out) const {
  std::vector<TokenId> symbols;
  file_.pre_tokenizer.split(text, scratch, [&](std::string_view word) { encode_word(word, symbols, out); });
}

void Tokenizer::encode_word(std::string_view word, std::vector<TokenId>& symbols, std::vector<TokenId>& out) const {
  const auto known = file_.vocabulary.find(word);
  if (known && (file_.ignore_merges || whole_[static_cast<size_t>(*known)].load(std::memory_order_relaxed) == kYes)) {
    out.push_back(*known);
    return;
  }
  symbols.clear();
  if (file_.letters) {
    append_letters(word, symbols);
  } else {
    for (const char c : word) symbols.push_back(byte_token_[static_cast<uint8_t>(c)]);
  }
  file_.merges.apply(symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
  if (known)
    whole_[static_cast<size_t>(*known)].store(symbols.size() == 1 && symbols[0] == *known ? kYes : kNo,
                                              std::memory_order_relaxed);
}

void Tokenizer::append_letters(std::string_view word, std::vector<TokenId>& symbols) const {
  for (size_t at = 0; at < word.size();) {
    size_t end = at + 1;
    while (end < word.size() && (static_cast<uint8_t>(word[end]) & 0xC0) == 0x80) ++end;
    const std::string_view letter = word.substr(at, end - at);
    if (const auto id = file_.vocabulary.find(letter)) {
      symbols.push_back(*id);
    } else {
      for (const char c : letter) symbols.push_back(file_.letters->byte_tokens[static_cast<uint8_t>(c)]);
    }
    at = end;
  }
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string out;
  for (const TokenId id : ids) {
    if (!file_.vocabulary.holds(id))
      throw sdk::Failure(LF_E_INVALID, fmt::format("decoding: {} is no token; ids end at {}", id, end()));
    const std::string_view bytes = file_.vocabulary.bytes(id);
    if (file_.letters && !file_.letters->blank.empty()) {
      out.append(replaced(bytes, file_.letters->blank, " "));
    } else {
      out.append(bytes);
    }
  }
  return out;
}

std::optional<TokenId> Tokenizer::added_token(std::string_view content) const {
  for (const AddedToken& token : file_.added)
    if (token.content == content) return token.id;
  return std::nullopt;
}

}  // namespace lf::text
