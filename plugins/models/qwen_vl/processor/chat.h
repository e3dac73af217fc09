// A conversation as a token sequence: the family's ChatML, written out natively (no template language is interpreted).
//
// Qwen2-VL, Qwen2.5-VL: every message is <|im_start|>role\n content <|im_end|>\n, with "You are a helpful assistant."
// before a conversation that starts without a system message. Qwen3-VL: no such default; a tool's message becomes a
// user's between <tool_response> marks; videos are written group by group with a time stamp before each; pictures only
// from users and tools. Source: the published chat templates, for conversations without tool definitions and tool
// calls.
//
// What is learnt from a message with `train`: its text and its <|im_end|>. Never learnt: headers, the line end after
// <|im_end|> (no model generates it), vision tokens and stamps.
//
// A learnt text is encoded apart from its header, since that is how generation meets it: "assistant\n" is prompt.
// Elsewhere header, text and stamps are encoded as one, as the reference encodes the whole rendered conversation. The
// two differ only where a learnt text begins with line ends or blanks.
//
// Text of a sample never becomes a structural token: <|im_end|> in a text is eight letters and more. The reference
// would let it through. The family's marks for grounding (object_ref, box, quad) are recognised, and so is what a
// tokenizer lists as added but not special (<think>, <tool_call>).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "family/conversation.h"
#include "family/sequence.h"
#include "qwen_vl/config.h"
#include "text/tokenizer.h"

namespace lf::qwen_vl {

using family::ImageItem;
using family::Item;
using family::kUnsupervised;
using family::Message;
using family::Rows;
using family::Sequence;
using family::TextItem;
using family::VideoItem;
using family::VisionInput;

enum class ChatStyle { kQwen2, kQwen3 };

class Chat {
 public:
  // `tokenizer` and `config` outlive it. Throws sdk::Failure LF_E_INVALID where the tokenizer lacks the family's tokens
  // or numbers them otherwise than the model.
  Chat(const text::Tokenizer& tokenizer, const QwenVlConfig& config, ChatStyle style);

  // `vision`: one for each picture and video of the messages, in order; moved into the sequence. Throws LF_E_DATA for
  // what the style has no place for. [any thread]
  Sequence encode(const std::vector<Message>& messages, std::vector<VisionInput> vision) const;

 private:
  class Writer;

  const text::Tokenizer& tokenizer_;
  const QwenVlConfig& config_;
  ChatStyle style_;
  text::TokenId im_start_, im_end_;
  std::vector<text::TokenId> marks_;
};

// A model folder's own chat template, judged by its text.
enum class TemplateKind { kNone, kKnown, kUnknown };
TemplateKind judge_template(std::string_view chat_template);

}  // namespace lf::qwen_vl
