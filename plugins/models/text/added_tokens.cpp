#include "text/added_tokens.h"

#include <algorithm>

#include <utf8proc.h>

namespace lf::text {
namespace {

int32_t letter_after(std::string_view text, size_t at) {
  utf8proc_int32_t letter = -1;
  if (at < text.size())
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                     static_cast<utf8proc_ssize_t>(text.size() - at), &letter);
  return letter;
}

size_t start_of_letter_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

// \w: letters, marks, numbers, connecting punctuation.
bool is_word(int32_t letter) {
  if (letter < 0) return false;
  const auto category = utf8proc_category(letter);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO) || category == UTF8PROC_CATEGORY_PC;
}

bool is_blank(int32_t letter) {
  if (letter < 0) return false;
  if ((letter >= '\t' && letter <= '\r') || letter == 0x85) return true;
  const auto category = utf8proc_category(letter);
  return category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
}

}  // namespace

void AddedTokenFinder::add(const AddedToken& token) {
  uint32_t node = 0;
  for (const char c : token.content) {
    const auto byte = static_cast<uint8_t>(c);
    auto& next = nodes_[node].next;
    const auto known = std::find_if(next.begin(), next.end(), [&](const auto& edge) { return edge.first == byte; });
    if (known != next.end()) {
      node = known->second;
    } else {
      const auto fresh = static_cast<uint32_t>(nodes_.size());
      next.emplace_back(byte, fresh);
      nodes_.emplace_back();
      node = fresh;
    }
  }
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  starts_[static_cast<uint8_t>(token.content.front())] = true;
  tokens_.push_back(token);
}

const AddedToken* AddedTokenFinder::longest(std::string_view text, size_t at) const {
  int32_t found = -1;
  for (uint32_t node = 0; at < text.size(); ++at) {
    const auto& next = nodes_[node].next;
    const auto byte = static_cast<uint8_t>(text[at]);
    const auto edge = std::find_if(next.begin(), next.end(), [&](const auto& e) { return e.first == byte; });
    if (edge == next.end()) break;
    node = edge->second;
    if (nodes_[node].token >= 0) found = nodes_[node].token;
  }
  return found < 0 ? nullptr : &tokens_[static_cast<size_t>(found)];
}

void AddedTokenFinder::scan(std::string_view text, const Wanted& wanted,
                            const std::function<void(std::string_view, const AddedToken*)>& piece) const {
  size_t done = 0;  // everything before has been handed out
  for (size_t at = 0; at < text.size();) {
    if (!starts_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const AddedToken* token = longest(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;  // a token that is passed over is passed over whole
    if (token->special && !wanted.all_special &&
        std::find(wanted.special.begin(), wanted.special.end(), token->id) == wanted.special.end())
      continue;
    if (token->single_word && ((begin > 0 && is_word(letter_after(text, start_of_letter_before(text, begin)))) ||
                               is_word(letter_after(text, end))))
      continue;
    if (token->lstrip)
      while (begin > done && is_blank(letter_after(text, start_of_letter_before(text, begin))))
        begin = start_of_letter_before(text, begin);
    if (token->rstrip)
      while (end < text.size() && is_blank(letter_after(text, end))) {
        ++end;
        while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) ++end;
      }
    if (begin > done) piece(text.substr(done, begin - done), nullptr);
    piece(text.substr(begin, end - begin), token);
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) piece(text.substr(done), nullptr);
}

}  // namespace lf::text
