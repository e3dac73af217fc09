#include "causal_lm/processor/chat.h"

#include "family/token_writer.h"
#include "lf/plugin_sdk/guard.hpp"

namespace lf::causal_lm {
namespace {

constexpr std::string_view kFamily = "a chat model";

}  // namespace

Chat::Chat(const text::Tokenizer& tokenizer, int64_t vocabulary, ChatStyle style)
    : tokenizer_(tokenizer), style_(style) {
  const auto token = [&](std::string_view content) { return family::needed_token(tokenizer, content, kFamily); };
  if (style == ChatStyle::kLlama3) {
    begin_ = token("<|begin_of_text|>");
    header_ = token("<|start_header_id|>");
    header_end_ = token("<|end_header_id|>");
    end_ = token("<|eot_id|>");
  } else {
    header_ = token("<|im_start|>");
    end_ = token("<|im_end|>");
  }
  family::check_vocabulary(tokenizer, vocabulary);
}

family::Sequence Chat::encode(const std::vector<family::Message>& messages) const {
  family::Sequence out;
  family::TokenWriter writer(tokenizer_, {}, out);
  if (begin_) writer.token(*begin_, false);
  for (const family::Message& message : messages) {
    writer.token(header_, false);
    writer.text(message.role, false);
    if (header_end_) writer.token(*header_end_, false);
    writer.text(style_ == ChatStyle::kLlama3 ? "\n\n" : "\n", false);
    for (const family::Item& item : message.content) {
      const auto* words = std::get_if<family::TextItem>(&item);
      if (words == nullptr)
        throw sdk::Failure(LF_E_DATA, "a picture or a video: this model reads text only; choose another family");
      writer.text(words->text, message.train);
    }
    writer.token(end_, message.train);
    if (style_ == ChatStyle::kChatMl) writer.text("\n", false);
  }
  writer.flush();
  return out;
}

family::Sequence Chat::encode(std::string_view text) const {
  family::Sequence out;
  family::TokenWriter writer(tokenizer_, {}, out);
  if (begin_) writer.token(*begin_, false);
  writer.text(text, true);
  writer.token(
      family::needed_token(tokenizer_, style_ == ChatStyle::kLlama3 ? "<|end_of_text|>" : "<|endoftext|>", kFamily),
      true);
  return out;
}

}  // namespace lf::causal_lm
