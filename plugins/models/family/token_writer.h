// A token sequence put together from text and structural tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "family/sequence.h"
#include "text/tokenizer.h"

namespace lf::family {

// A tokenizer's added token by its spelling. `family` for messages. Throws sdk::Failure LF_E_INVALID where it has none.
text::TokenId needed_token(const text::Tokenizer& tokenizer, std::string_view content, std::string_view family);
// Throws where the token is missing, or is not the number that the model's config.json gives it.
void check_token(const text::Tokenizer& tokenizer, std::string_view content, std::string_view family, int64_t model);
// Throws where the tokenizer has more ids than the model.
void check_vocabulary(const text::Tokenizer& tokenizer, int64_t vocabulary);

// Text is held back until a token or a change of supervision comes, so that neighbouring texts are encoded as one.
class TokenWriter {
 public:
  // marks: special tokens that text may spell. All outlive the writer.
  TokenWriter(const text::Tokenizer& tokenizer, std::span<const text::TokenId> marks, Sequence& out)
      : tokenizer_(tokenizer), marks_(marks), out_(out) {}

  void text(std::string_view words, bool learnt);
  void token(int64_t id, bool learnt);
  void tokens(int64_t id, int64_t count);  // not learnt
  // The row where `words`, if written now and not learnt, would begin. They may share their first token with the text
  // before them: then that token's row.
  int64_t begin_of(std::string_view words);
  void flush();

 private:
  const text::Tokenizer& tokenizer_;
  std::span<const text::TokenId> marks_;
  Sequence& out_;
  std::string pending_;
  bool learnt_ = false;
};

}  // namespace lf::family
