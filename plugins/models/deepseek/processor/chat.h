// Conversations and plain texts as token sequences: DeepSeek's chat format, written out natively (no template language
// is interpreted). <bos>, <eos> stand for the tokenizer's own.
//
//   V3            <bos> system <｜User｜> question <｜Assistant｜> answer <eos> <｜User｜> ...
//   V3.1, V3.2    the same with </think> after <｜Assistant｜>: an answer without thinking
//   plain text    <bos> text <eos>, all of it learnt but <bos>
//
// Source: the chat templates of deepseek-ai/DeepSeek-V3 and DeepSeek-V3.1, for conversations without tools.
//
// What is learnt from a message with `train`: its text and its <eos>. Text of a sample never becomes <｜User｜>,
// <｜Assistant｜> or a special token, though the tokenizer's file would let the first two through.
#pragma once

#include <string_view>
#include <vector>

#include "family/conversation.h"
#include "family/sequence.h"
#include "text/tokenizer.h"

namespace lf::deepseek {

enum class ChatStyle { kV3, kV31 };

class Chat {
 public:
  // `tokenizer` outlives it. Throws sdk::Failure LF_E_INVALID where the tokenizer lacks the family's tokens or has ids
  // beyond the model's vocabulary.
  Chat(const text::Tokenizer& tokenizer, int64_t vocabulary, ChatStyle style);

  // Throw LF_E_DATA: pictures, videos and tools have no place here; text that is not UTF-8. [any thread]
  family::Sequence encode(const std::vector<family::Message>& messages) const;
  family::Sequence encode(std::string_view text) const;

 private:
  void write(family::Sequence& out, std::string_view text, bool learnt) const;

  const text::Tokenizer& tokenizer_;
  ChatStyle style_;
  text::TokenId begin_, end_, user_, assistant_, no_thinking_ = 0;
};

}  // namespace lf::deepseek
