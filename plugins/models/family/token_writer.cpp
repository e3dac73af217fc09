#include "family/token_writer.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "lf/plugin_sdk/guard.hpp"

namespace lf::family {

text::TokenId needed_token(const text::Tokenizer& tokenizer, std::string_view content, std::string_view family) {
  const auto id = tokenizer.added_token(content);
  if (!id)
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("tokenizer: expected the token {}, as {}'s have it; set model.tokenizer to the family's", content,
                    family));
  return *id;
}

void check_token(const text::Tokenizer& tokenizer, std::string_view content, std::string_view family, int64_t model) {
  if (const auto id = needed_token(tokenizer, content, family); id != model)
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("tokenizer: {} is {}, but the model's config.json says {}; they do not belong together", content,
                    id, model));
}

void check_vocabulary(const text::Tokenizer& tokenizer, int64_t vocabulary) {
  if (tokenizer.end() > vocabulary)
    throw sdk::Failure(
        LF_E_INVALID,
        fmt::format("tokenizer: ids up to {}, but the model has a vocabulary of {}; they do not belong together",
                    tokenizer.end() - 1, vocabulary));
}

void TokenWriter::text(std::string_view words, bool learnt) {
  if (learnt != learnt_) flush();
  learnt_ = learnt;
  pending_ += words;
}

void TokenWriter::token(int64_t id, bool learnt) {
  flush();
  out_.ids.push_back(id);
  out_.labels.push_back(learnt ? id : kUnsupervised);
}

void TokenWriter::tokens(int64_t id, int64_t count) {
  flush();
  out_.ids.insert(out_.ids.end(), static_cast<size_t>(count), id);
  out_.labels.insert(out_.labels.end(), static_cast<size_t>(count), kUnsupervised);
}

int64_t TokenWriter::begin_of(std::string_view words) {
  if (learnt_) flush();
  const auto before = tokenizer_.encode_plain(pending_, marks_);
  const auto with = tokenizer_.encode_plain(pending_ + std::string(words), marks_);
  return out_.rows() + (std::mismatch(before.begin(), before.end(), with.begin(), with.end()).first - before.begin());
}

void TokenWriter::flush() {
  if (pending_.empty()) return;
  for (const text::TokenId id : tokenizer_.encode_plain(pending_, marks_)) {
    out_.ids.push_back(id);
    out_.labels.push_back(learnt_ ? id : kUnsupervised);
  }
  pending_.clear();
}

}  // namespace lf::family
