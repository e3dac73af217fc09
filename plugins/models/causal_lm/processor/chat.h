// A conversation as a token sequence, written out natively (no template language is interpreted).
//
//   kChatMl   <|im_start|>role\n text <|im_end|>\n                                   (Qwen2, Qwen3, and many others)
//   kLlama3   <|begin_of_text|>, then <|start_header_id|>role<|end_header_id|>\n\n text <|eot_id|>, where a message's
//             text is without the white space at its ends, which the published template trims
//
// A plain text is written as the models are pretrained on it: text <|endoftext|>, or <|begin_of_text|> text
// <|end_of_text|>; all but the begin is learnt.
//
// Sources: the published chat templates, for conversations without tools; without the system messages that some of them
// put before a conversation that has none. What is learnt is an answer's text and the mark that ends it. Text of a
// sample never becomes a structural token.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "family/conversation.h"
#include "family/sequence.h"
#include "text/tokenizer.h"

namespace lf::causal_lm {

enum class ChatStyle { kChatMl, kLlama3 };

class Chat {
 public:
  // `tokenizer` outlives it. Throws sdk::Failure LF_E_INVALID where it lacks the style's tokens or has more ids than
  // the model.
  Chat(const text::Tokenizer& tokenizer, int64_t vocabulary, ChatStyle style);

  // Throws LF_E_DATA for a picture or a video. [any thread]
  family::Sequence encode(const std::vector<family::Message>& messages) const;
  // Throws LF_E_INVALID where the tokenizer lacks the end of a text.
  family::Sequence encode(std::string_view text) const;

 private:
  const text::Tokenizer& tokenizer_;
  ChatStyle style_;
  std::optional<text::TokenId> begin_, header_end_;
  text::TokenId header_, end_;
};

}  // namespace lf::causal_lm
